// The one candidate with the highest logit; the lowest id among equals.
#ifndef NG_PLUGINS_SAMPLER_GREEDY_GREEDY_H_
#define NG_PLUGINS_SAMPLER_GREEDY_GREEDY_H_

#include <cstdint>
#include <memory>

#include "ng/sampler.h"

namespace ng {

class Greedy final : public SamplerStage {
 public:
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_GREEDY_GREEDY_H_
