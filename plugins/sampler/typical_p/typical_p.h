// Locally typical sampling (Meister et al. 2022, "Locally Typical Sampling"): keeps the candidates
// whose surprise, -log p, is nearest to the one expected (the entropy), the fewest whose mass
// reaches p; the lowest ids among equals.
#ifndef NG_PLUGINS_SAMPLER_TYPICAL_P_TYPICAL_P_H_
#define NG_PLUGINS_SAMPLER_TYPICAL_P_TYPICAL_P_H_

#include <memory>

#include "ng/sampler.h"

namespace ng {

class TypicalP final : public SamplerStage {
 public:
  // Errors: UsageError unless p is in (0, 1]. 1 keeps every candidate.
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(double p);

  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;

 private:
  explicit TypicalP(double p) : p_(p) {}

  const double p_;
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_TYPICAL_P_TYPICAL_P_H_
