#include "apps/fetch/hub/settings.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "apps/fetch/hub/urls.h"
#include "ng/files.h"
#include "ng/named_models.h"

namespace ng::fetch {
namespace {

constexpr const char* kEndpoint = "https://huggingface.co";

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string FirstOf(const std::string& first, const std::string& second) {
  return first.empty() ? second : first;
}

// A folder or file may begin with "~/" there.
std::string PathIn(const char* name) {
  const std::string path = Variable(name);
  return path.starts_with("~/") ? Variable("HOME") + path.substr(1) : path;
}

bool IsTrue(const std::string& value) {
  const std::string word = absl::AsciiStrToUpper(value);
  return word == "1" || word == "ON" || word == "YES" || word == "TRUE";
}

std::string TokenFile() { return FirstOf(PathIn("HF_TOKEN_PATH"), HubHomeFolder() + "/token"); }

absl::StatusOr<std::string> ReadToken() {
  constexpr int64_t kLongest = 10000;
  if (IsTrue(Variable("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return std::string();
  std::string from = "HF_TOKEN";
  std::string token = FirstOf(Variable("HF_TOKEN"), Variable("HUGGING_FACE_HUB_TOKEN"));
  if (token.empty()) {
    from = TokenFile();
    absl::StatusOr<std::string> text = ReadText(from, kLongest, nullptr);
    if (text.ok()) token = *std::move(text);  // most users have none
  }
  absl::StripAsciiWhitespace(&token);
  const bool plain = std::ranges::all_of(
      token, [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); });
  if (plain) return token;
  return UsageError(from + ": holds a character that no token has");
}

}  // namespace

absl::StatusOr<HubSettings> ReadHubSettings() {
  for (const char* const name : {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}) {
    if (IsTrue(Variable(name))) {
      return UsageError(absl::StrCat(name, " is set: nothing is fetched"));
    }
  }
  HubSettings settings;
  settings.endpoint = FirstOf(Variable("HF_ENDPOINT"), kEndpoint);
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  settings.origin = OriginOf(settings.endpoint);
  if (settings.origin.empty()) {
    return UsageError(absl::StrCat("HF_ENDPOINT = ", settings.endpoint,
                                   ": must be an address such as ", kEndpoint));
  }
  NG_ASSIGN_OR_RETURN(settings.token, ReadToken());
  settings.cache = HubCacheFolder();
  if (settings.cache.empty()) {
    return UsageError("there is no place for the model: set HF_HOME or HOME to a folder");
  }
  return settings;
}

}  // namespace ng::fetch
