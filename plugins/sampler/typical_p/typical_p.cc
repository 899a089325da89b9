#include "plugins/sampler/typical_p/typical_p.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {

absl::StatusOr<std::unique_ptr<SamplerStage>> TypicalP::Create(double p) {
  if (!(p > 0.0 && p <= 1.0)) {
    return UsageError(absl::StrCat("sampler.typical_p.p = ", p, ", must be in (0, 1]"));
  }
  return absl::WrapUnique(new TypicalP(p));
}

// Surprise is a constant minus the logit, so the expected one belongs to the mean logit drawn.
absl::Status TypicalP::Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) {
  NG_RETURN_IF_ERROR(candidates.MaxLogit().status());
  if (p_ == 1.0) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(const double expected, candidates.MeanDrawn());
  candidates.KeepNear(expected, p_);
  return absl::OkStatus();
}

}  // namespace ng
