// Adds a bias to the logits of given tokens, as the logit_bias of OpenAI's API and of llama.cpp.
#ifndef NG_PLUGINS_SAMPLER_LOGIT_BIAS_LOGIT_BIAS_H_
#define NG_PLUGINS_SAMPLER_LOGIT_BIAS_LOGIT_BIAS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/sampler.h"

namespace ng {

class LogitBias final : public SamplerStage {
 public:
  // `pairs` are "id=bias" each, with a bias that is a number or -inf: the token is never drawn. The
  // biases of one token are added. Errors: UsageError for anything else.
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(
      std::span<const std::string_view> pairs, int64_t vocab_size);

  // Also an error: every candidate that could be drawn is banned, or a logit becomes infinite.
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;

 private:
  explicit LogitBias(int64_t vocab_size) : bias_(vocab_size) {}

  std::vector<int32_t> ids_;  // those with a bias, each once
  std::vector<float> bias_;   // [vocab_size]
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_LOGIT_BIAS_LOGIT_BIAS_H_
