#include "cycle_breaker.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>

namespace ng_example {
namespace {

constexpr float kNeverDrawn = -std::numeric_limits<float>::infinity();

// Adds and does not assign: a NaN must not be hidden.
void Ban(int32_t token, ng::CandidateSet& candidates) {
  if (candidates.dense()) {
    candidates.LogitOf(token) += kNeverDrawn;
    return;
  }
  for (ng::Candidate& item : candidates.items()) {
    if (item.id == token) item.logit += kNeverDrawn;
  }
}

}  // namespace

// The last run_length - 1 tokens are the start of a run; what followed the same tokens earlier
// would complete it a second time.
absl::Status CycleBreaker::Apply(int slot, const ng::DrawKey& /*key*/,
                                 ng::CandidateSet& candidates) {
  const std::span<const int32_t> tokens = History(slot);
  const size_t start_length = std::min(tokens.size(), static_cast<size_t>(run_length_ - 1));
  const std::span<const int32_t> start = tokens.last(start_length);
  for (size_t i = 0; i + start_length < tokens.size(); ++i) {
    if (std::ranges::equal(tokens.subspan(i, start_length), start)) {
      Ban(tokens[i + start_length], candidates);
    }
  }
  const absl::Status status = candidates.MaxLogit().status();
  if (status.ok()) return status;  // a text that nobody reads is not made
  return ng::Annotate(status, "without the tokens that would repeat a run of " +
                                  std::to_string(run_length_) +
                                  " (put cycle_breaker before the stages that narrow, or raise "
                                  "cycle_breaker.run_length): ");
}

}  // namespace ng_example
