// Keeps the tokens that the newest query attends to most (Oren et al. 2024, "Transformers are
// Multi-State RNNs"): the score is the attention that the last query gives to a token.
//
// The paper takes the mean over all heads of a layer, which then keep the same tokens: that is
// `cache.budget.per = layer`. With `per = head` it is the sum over the query heads that share the
// kv head. The newest token has no rights of its own, as in the paper; kvpress always keeps it, and
// so does a `recent` above 0.
#ifndef NG_PLUGINS_POLICY_TOVA_TOVA_H_
#define NG_PLUGINS_POLICY_TOVA_TOVA_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "ng/policy.h"

namespace ng {

class TovaPolicy final : public Policy {
 public:
  explicit TovaPolicy(const PluginContext& /*context*/) {}

  std::span<const std::string_view> needs() const override { return {&kNeedAttended, 1}; }
  int64_t attended_queries() const override { return 1; }

  absl::Status Score(const HeldTokens& tokens, std::span<float> scores) const override {
    std::ranges::copy(tokens.attended, scores.begin());
    return absl::OkStatus();
  }
};

}  // namespace ng

#endif  // NG_PLUGINS_POLICY_TOVA_TOVA_H_
