// Makes tokens that were used lately less probable (CTRL, Keskar et al. 2019): the logit of each
// distinct token among the last `window` of prompt and generated tokens is divided by `value` when
// it is positive and multiplied by it otherwise. A value below 1 rewards repetition.
#ifndef NG_PLUGINS_SAMPLER_REPETITION_PENALTY_REPETITION_PENALTY_H_
#define NG_PLUGINS_SAMPLER_REPETITION_PENALTY_REPETITION_PENALTY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ng/history_stage.h"
#include "ng/plugin.h"

namespace ng {

struct RepetitionPenaltyOptions {
  double value = 1.1;   // in (0, 100]
  int64_t window = 64;  // tokens looked back on; 0: all
};

class RepetitionPenalty final : public TokenHistoryStage {
 public:
  // Errors: UsageError when an option is out of range.
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(
      const RepetitionPenaltyOptions& options, const ModelShape& model);

  // Errors: UsageError for a token outside the vocabulary.
  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override;

  // O(window) while the candidates are dense, else O(window + candidates).
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;

 private:
  RepetitionPenalty(const RepetitionPenaltyOptions& options, const ModelShape& model);

  const float value_;
  const int64_t window_;
  std::vector<uint8_t> recent_;  // [vocab_size]: set during Apply only
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_REPETITION_PENALTY_REPETITION_PENALTY_H_
