// Makes chosen tokens impossible: their logits become -infinity.
#ifndef NG_PLUGINS_SAMPLER_BANNED_TOKENS_BANNED_TOKENS_H_
#define NG_PLUGINS_SAMPLER_BANNED_TOKENS_BANNED_TOKENS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ng/sampler.h"

namespace ng {

class BannedTokens final : public SamplerStage {
 public:
  // Errors: UsageError for an id outside the vocabulary.
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(std::span<const int64_t> ids,
                                                              int64_t vocab_size);

  // Also an error: every candidate that could be drawn is banned.
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;

 private:
  explicit BannedTokens(int64_t vocab_size) : banned_(vocab_size) {}

  std::vector<int32_t> ids_;
  std::vector<uint8_t> banned_;  // [vocab_size]: 1 for the ids above
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_BANNED_TOKENS_BANNED_TOKENS_H_
