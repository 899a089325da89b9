// Keeps the newest tokens, and with the sinks of the cache the first ones too (Xiao et al. 2023,
// "Efficient Streaming Language Models with Attention Sinks").
#ifndef NG_PLUGINS_POLICY_WINDOW_WINDOW_H_
#define NG_PLUGINS_POLICY_WINDOW_WINDOW_H_

#include <cstddef>
#include <span>

#include "ng/policy.h"

namespace ng {

class WindowPolicy final : public Policy {
 public:
  explicit WindowPolicy(const PluginContext& /*context*/) {}

  absl::Status Score(const HeldTokens& /*tokens*/, std::span<float> scores) const override {
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(i);
    return absl::OkStatus();
  }
};

}  // namespace ng

#endif  // NG_PLUGINS_POLICY_WINDOW_WINDOW_H_
