#include "apps/eval/measure/held.h"

#include <algorithm>
#include <cmath>

#include "apps/eval/rows.h"
#include "ng/config.h"

namespace ng::eval {

HeldSequence::~HeldSequence() {
  if (sequence_) engine_.CloseSequence(*sequence_);
}

absl::Status HeldSequence::Open(int64_t capacity) {
  NG_ASSIGN_OR_RETURN(sequence_, engine_.OpenSequence(capacity));
  return absl::OkStatus();
}

absl::Status HeldSequence::SetContext(int64_t n_tokens) {
  return engine_.SetContext(*sequence_, n_tokens);
}

absl::Status HeldSequence::SetRule(const std::string& rule) {
  return engine_.SetKeepRule(*sequence_, rule);
}

absl::Status HeldSequence::Fork(const HeldSequence& other, int64_t capacity) {
  NG_ASSIGN_OR_RETURN(sequence_, engine_.ForkSequence(*other.sequence_, capacity));
  length_ = other.length_;
  held_ = other.held_;
  peak_ = other.peak_;
  return absl::OkStatus();
}

absl::StatusOr<std::span<const float>> HeldSequence::Feed(std::span<const int32_t> tokens,
                                                          const std::atomic<bool>* stop) {
  const int64_t chunk = ChunkOf(engine_.config());
  std::span<const float> row;
  while (!tokens.empty()) {
    if (stop != nullptr && *stop) return InterruptedError("interrupted");
    const auto left = std::ssize(tokens);
    const int64_t n =
        std::min({chunk == 0 ? left : chunk, left, engine_.MostLogitRows(*sequence_)});
    const auto part = tokens.first(static_cast<size_t>(n));
    const std::vector<int32_t> step(part.begin(), part.end());
    NG_ASSIGN_OR_RETURN(const int64_t gone, TokensGone(engine_));
    NG_ASSIGN_OR_RETURN(const StepLogits logits, engine_.Extend({&*sequence_, 1}, {&step, 1}));
    NG_ASSIGN_OR_RETURN(const int64_t gone_now, TokensGone(engine_));
    length_ += n;
    peak_ = std::max(peak_, held_ + n);
    held_ += n - (gone_now - gone);
    row = {logits.logits.Row(0), static_cast<size_t>(logits.logits.extent[1])};
    tokens = tokens.subspan(static_cast<size_t>(n));
  }
  if (!std::ranges::all_of(row, [](float logit) { return std::isfinite(logit); })) {
    return NumericError("the logits are not finite");
  }
  return row;
}

}  // namespace ng::eval
