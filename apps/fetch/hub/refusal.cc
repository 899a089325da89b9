#include "apps/fetch/hub/refusal.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace ng::fetch {
namespace {

constexpr int kUnauthorised = 401;
constexpr int kForbidden = 403;
constexpr int kNotFound = 404;
constexpr int kTooMany = 429;

// Cut, as it is somebody else's.
std::string Said(const HttpAnswer& answer) {
  constexpr size_t kLongest = 200;
  if (answer.error_message.empty()) return {};
  return absl::StrCat(" (\"", answer.error_message.substr(0, kLongest), "\")");
}

const char* HintOf(const HttpAnswer& answer, bool with_token) {
  if (answer.error_code == "GatedRepo") {
    return with_token ? "it is gated: ask for access on its page"
                      : "it is gated: ask for access on its page and set HF_TOKEN";
  }
  if (answer.error_code == "RevisionNotFound") return "it has no such revision";
  if (answer.error_code == "EntryNotFound") return "it has no such file";
  if (answer.status == kNotFound || answer.error_code == "RepoNotFound") {
    return with_token ? "there is no such model, or this token may not see it"
                      : "there is no such model, or it is private: then set HF_TOKEN";
  }
  return with_token ? "the token is not valid, or may not see it"
                    : "there is no such model, or it is private or gated: then set HF_TOKEN";
}

}  // namespace

bool IsPassing(const HttpAnswer& answer) {
  constexpr int kStatuses[] = {408, kTooMany, 500, 502, 503, 504};
  if (!answer.cut.empty() || answer.status == 0) return !answer.hopeless;
  return std::ranges::count(kStatuses, answer.status) != 0;
}

absl::Status RefusalOf(const HttpAnswer& answer, const Subject& subject) {
  const std::string from = absl::StrCat(subject.name, ": ", subject.host);
  if (!answer.cut.empty() || answer.status == 0) {
    return RuntimeError(
        absl::StrCat(from, ": ", answer.cut.empty() ? "there is no answer" : answer.cut));
  }
  const std::string status = absl::StrCat(from, " answers ", answer.status);
  if (answer.status == kTooMany) {
    return RuntimeError(
        absl::StrCat(status, ": too many requests",
                     answer.retry_after_s > 0
                         ? absl::StrCat(", it asks to wait ", answer.retry_after_s, " seconds")
                         : std::string()));
  }
  if (answer.status == kUnauthorised || answer.status == kForbidden || answer.status == kNotFound) {
    return ModelFileError(
        absl::StrCat(status, ": ", HintOf(answer, subject.with_token), Said(answer)));
  }
  return RuntimeError(absl::StrCat(status, Said(answer)));
}

}  // namespace ng::fetch
