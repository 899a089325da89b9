// Keeps the candidates whose probability is at least p times the largest one (Nguyen et al. 2024,
// "Turning Up the Heat: Min-p Sampling").
#ifndef NG_PLUGINS_SAMPLER_MIN_P_MIN_P_H_
#define NG_PLUGINS_SAMPLER_MIN_P_MIN_P_H_

#include <cstdint>
#include <memory>

#include "ng/sampler.h"

namespace ng {

class MinP final : public SamplerStage {
 public:
  // Errors: UsageError unless p is in [0, 1]. 0 keeps all, 1 the most probable and its equals.
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(double p);

  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;

 private:
  explicit MinP(double log_p) : log_p_(log_p) {}

  const double log_p_;
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_MIN_P_MIN_P_H_
