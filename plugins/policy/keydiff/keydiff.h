// Keeps the tokens whose keys are least like the others (Park et al. 2025, "KeyDiff: Key
// Similarity-Based KV Cache Eviction for Long-Context LLM Inference in Resource-Constrained
// Environments"): the score is minus the cosine between a key and the mean of all keys, each of
// length 1.
#ifndef NG_PLUGINS_POLICY_KEYDIFF_KEYDIFF_H_
#define NG_PLUGINS_POLICY_KEYDIFF_KEYDIFF_H_

#include <span>
#include <string_view>

#include "ng/policy.h"

namespace ng {

class KeydiffPolicy final : public Policy {
 public:
  explicit KeydiffPolicy(const PluginContext& /*context*/) {}

  std::span<const std::string_view> needs() const override { return {&kNeedKeys, 1}; }
  absl::Status Score(const HeldTokens& tokens, std::span<float> scores) const override;
};

}  // namespace ng

#endif  // NG_PLUGINS_POLICY_KEYDIFF_KEYDIFF_H_
