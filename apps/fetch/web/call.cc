#include "apps/fetch/web/call.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/fetch/hub/urls.h"

namespace ng::fetch {
namespace {

bool LeadsElsewhere(int status) {
  constexpr int kStatuses[] = {301, 302, 303, 307, 308};
  return std::ranges::count(kStatuses, status) != 0;
}

}  // namespace

Call::Call(Exchanges& web, const HubSettings& settings, Asked asked, BodySink sink)
    : web_(web), settings_(settings), asked_(std::move(asked)), sink_(std::move(sink)) {}

bool Call::from_hub() const { return OriginOf(asked_.url) == settings_.origin; }

absl::StatusOr<bool> Call::Step() {
  constexpr int kMostHops = 5;
  if (exchange_ != nullptr) {
    if (!exchange_->done()) return false;
    const HttpAnswer& answer = exchange_->answer();
    if (!LeadsElsewhere(answer.status) || answer.location.empty()) return true;
    NG_ASSIGN_OR_RETURN(std::string target, Redirected(asked_.url, answer.location));
    if (asked_.until_linked && !answer.linked_etag.empty()) {
      leads_to_ = std::move(target);
      return true;
    }
    if (++n_hops_ > kMostHops) {
      return ModelFileError(
          absl::StrCat(asked_.url, ": leads elsewhere more than ", kMostHops, " times"));
    }
    asked_.url = std::move(target);
  }
  const std::string token = from_hub() ? settings_.token : std::string();
  NG_ASSIGN_OR_RETURN(exchange_, web_.Begin({asked_.url, token, asked_.head, asked_.from}, sink_));
  return false;
}

double Patience::AfterFailure(int64_t retry_after_s, int64_t n_bytes) {
  constexpr int64_t kProgressBytes = int64_t{1} << 20;  // worth another try
  constexpr double kFirst = 0.25;
  constexpr double kLongest = 30.0;
  constexpr int64_t kLongestAsked = 300;
  if (n_bytes >= n_bytes_ + kProgressBytes) n_failures_ = 0;
  n_bytes_ = n_bytes;
  if (++n_failures_ > tries_ || retry_after_s > kLongestAsked) return -1.0;
  const double wait = std::min(kLongest, kFirst * std::exp2(n_failures_ - 1));
  return std::max(wait, static_cast<double>(retry_after_s));
}

}  // namespace ng::fetch
