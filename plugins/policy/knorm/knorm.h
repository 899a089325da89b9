// Keeps the tokens with the smallest keys: where a key is short, attention to it is often large
// (Devoto et al. 2024, "A Simple and Effective L2 Norm-Based Strategy for KV Cache Compression").
#ifndef NG_PLUGINS_POLICY_KNORM_KNORM_H_
#define NG_PLUGINS_POLICY_KNORM_KNORM_H_

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "ng/policy.h"

namespace ng {

class KnormPolicy final : public Policy {
 public:
  explicit KnormPolicy(const PluginContext& /*context*/) {}

  std::span<const std::string_view> needs() const override { return {&kNeedKeys, 1}; }

  absl::Status Score(const HeldTokens& tokens, std::span<float> scores) const override {
    for (int64_t i = 0; i < tokens.n_tokens(); ++i) {
      const float* key = tokens.keys.Row(i);
      double sum = 0.0;
      for (int64_t d = 0; d < tokens.keys.extent[1]; ++d) sum += double{key[d]} * double{key[d]};
      scores[static_cast<size_t>(i)] = static_cast<float>(-std::sqrt(sum));
    }
    return absl::OkStatus();
  }
};

}  // namespace ng

#endif  // NG_PLUGINS_POLICY_KNORM_KNORM_H_
