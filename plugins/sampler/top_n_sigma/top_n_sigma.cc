#include "plugins/sampler/top_n_sigma/top_n_sigma.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {

absl::StatusOr<std::unique_ptr<SamplerStage>> TopNSigma::Create(double n) {
  if (!(n >= 0.0 && n <= 100.0)) {
    return UsageError(absl::StrCat("sampler.top_n_sigma.n = ", n, ", must be in [0, 100]"));
  }
  return absl::WrapUnique(new TopNSigma(n));
}

absl::Status TopNSigma::Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) {
  NG_ASSIGN_OR_RETURN(const float max, candidates.MaxLogit());
  NG_ASSIGN_OR_RETURN(const double deviation, candidates.Deviation());
  candidates.KeepAtLeast(n_ > 0.0 ? max - n_ * deviation : max);
  return absl::OkStatus();
}

}  // namespace ng
