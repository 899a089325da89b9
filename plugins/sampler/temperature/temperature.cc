#include "plugins/sampler/temperature/temperature.h"

#include <cmath>
#include <limits>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {
namespace {

// Below it a quotient of common logits may leave the range of f32.
constexpr float kNearZero = 1e-30F;

// What is left at the limit: the best candidates, all alike.
void KeepBest(CandidateSet& candidates, float best) {
  for (Candidate& candidate : candidates.items()) {
    candidate.logit = candidate.logit == best ? 0.0F : -std::numeric_limits<float>::infinity();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<SamplerStage>> Temperature::Create(double value) {
  if (!(value > 0.0 && value <= 100.0)) {
    return UsageError(absl::StrCat("sampler.temperature.value = ", value,
                                   ", must be in (0, 100]; the limit at 0 is the stage greedy"));
  }
  return absl::WrapUnique(new Temperature(static_cast<float>(value)));
}

absl::Status Temperature::Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) {
  if (value_ < kNearZero) {
    NG_ASSIGN_OR_RETURN(const float best, candidates.MaxLogit());
    if (!std::isfinite(best / value_)) {
      KeepBest(candidates, best);
      return absl::OkStatus();
    }
  }
  candidates.DivideBy(value_);
  absl::Status status = candidates.MaxLogit().status();
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat("divided by sampler.temperature.value = ", value_,
                                       " (the limit at 0 is the stage greedy): "));
}

}  // namespace ng
