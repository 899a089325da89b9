#include "plugins/sampler/min_p/min_p.h"

#include <cmath>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {

absl::StatusOr<std::unique_ptr<SamplerStage>> MinP::Create(double p) {
  if (!(p >= 0.0 && p <= 1.0)) {
    return UsageError(absl::StrCat("sampler.min_p.p = ", p, ", must be in [0, 1]"));
  }
  return absl::WrapUnique(new MinP(std::log(p)));
}

// Both probabilities have the same denominator: their ratio is exp(logit - max).
absl::Status MinP::Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) {
  NG_ASSIGN_OR_RETURN(const float max, candidates.MaxLogit());
  candidates.KeepAtLeast(max + log_p_);
  return absl::OkStatus();
}

}  // namespace ng
