#include "plugins/sampler/top_p/top_p.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {

absl::StatusOr<std::unique_ptr<SamplerStage>> TopP::Create(double p) {
  if (!(p > 0.0 && p <= 1.0)) {
    return UsageError(absl::StrCat("sampler.top_p.p = ", p, ", must be in (0, 1]"));
  }
  return absl::WrapUnique(new TopP(p));
}

absl::Status TopP::Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) {
  NG_RETURN_IF_ERROR(candidates.MaxLogit().status());
  if (p_ < 1.0) candidates.KeepMass(p_);
  return absl::OkStatus();
}

}  // namespace ng
