// Top-n-sigma (Tang et al. 2024, "Top-nσ: Not All Logits Are You Need"): keeps the candidates whose
// logit is at most n standard deviations of the logits below the best. Dividing all logits by a
// temperature changes nothing about which they are.
#ifndef NG_PLUGINS_SAMPLER_TOP_N_SIGMA_TOP_N_SIGMA_H_
#define NG_PLUGINS_SAMPLER_TOP_N_SIGMA_TOP_N_SIGMA_H_

#include <memory>

#include "ng/sampler.h"

namespace ng {

class TopNSigma final : public SamplerStage {
 public:
  // Errors: UsageError unless n is in [0, 100]. 0 keeps the best and its equals.
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(double n);

  // Candidates at -infinity do not count in the deviation.
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;

 private:
  explicit TopNSigma(double n) : n_(n) {}

  const double n_;
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_TOP_N_SIGMA_TOP_N_SIGMA_H_
