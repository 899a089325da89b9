// A sampler stage against going in circles: a token that would repeat a run of n tokens which the
// sequence already holds is not drawn.
#ifndef NG_EXAMPLE_CYCLE_BREAKER_H_
#define NG_EXAMPLE_CYCLE_BREAKER_H_

#include <cstdint>

#include "ng/history_stage.h"

namespace ng_example {

class CycleBreaker final : public ng::TokenHistoryStage {
 public:
  // The option run_length is at least 2.
  explicit CycleBreaker(const ng::PluginContext& context)
      : TokenHistoryStage(context.model), run_length_(context.options.Int("run_length")) {}

  absl::Status Apply(int slot, const ng::DrawKey& key, ng::CandidateSet& candidates) override;

 private:
  const int64_t run_length_;
};

}  // namespace ng_example

#endif  // NG_EXAMPLE_CYCLE_BREAKER_H_
