// Divides every logit by a temperature: below 1 the distribution sharpens, above 1 it flattens.
#ifndef NG_PLUGINS_SAMPLER_TEMPERATURE_TEMPERATURE_H_
#define NG_PLUGINS_SAMPLER_TEMPERATURE_TEMPERATURE_H_

#include <cstdint>
#include <memory>

#include "ng/sampler.h"

namespace ng {

class Temperature final : public SamplerStage {
 public:
  // Errors: UsageError unless `value` is in (0, 100].
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(double value);

  // So near to 0 that the quotients would overflow, the best candidates are left, as at the limit.
  // Also an error: logits so large that a quotient overflows farther from 0.
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;

 private:
  explicit Temperature(float value) : value_(value) {}

  const float value_;
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_TEMPERATURE_TEMPERATURE_H_
