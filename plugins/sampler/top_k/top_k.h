// Keeps exactly k candidates, those with the highest logits; the lowest ids among equals (Fan et
// al. 2018, "Hierarchical Neural Story Generation").
#ifndef NG_PLUGINS_SAMPLER_TOP_K_TOP_K_H_
#define NG_PLUGINS_SAMPLER_TOP_K_TOP_K_H_

#include <cstdint>
#include <memory>

#include "ng/sampler.h"

namespace ng {

class TopK final : public SamplerStage {
 public:
  // Errors: UsageError unless k >= 1. With a k above the number of candidates, all stay.
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(int64_t k);

  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;

 private:
  explicit TopK(int64_t k) : k_(k) {}

  const int64_t k_;
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_TOP_K_TOP_K_H_
