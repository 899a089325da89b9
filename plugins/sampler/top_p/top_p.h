// Nucleus sampling (Holtzman et al. 2019, "The Curious Case of Neural Text Degeneration"): keeps
// the smallest set of most probable candidates whose mass reaches p; the lowest ids among equals.
#ifndef NG_PLUGINS_SAMPLER_TOP_P_TOP_P_H_
#define NG_PLUGINS_SAMPLER_TOP_P_TOP_P_H_

#include <cstdint>
#include <memory>

#include "ng/sampler.h"

namespace ng {

class TopP final : public SamplerStage {
 public:
  // Errors: UsageError unless p is in (0, 1].
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(double p);

  // The most probable candidate always stays, however small p is. p = 1 keeps every candidate, also
  // those whose share of the mass is below what a double resolves.
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;

 private:
  explicit TopP(double p) : p_(p) {}

  const double p_;
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_TOP_P_TOP_P_H_
