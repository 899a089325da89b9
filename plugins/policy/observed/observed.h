// Keeps the tokens that were attended to most (Zhang et al. 2023, "H2O: Heavy-Hitter Oracle for
// Efficient Generative Inference of Large Language Models"): the score is the attention that a
// token has got of all queries so far, added up over the query heads that share the kv head. This
// is the paper's definition; its other half, the newest tokens, is the cache's `recent`.
//
// A token that has been there for longer has been seen by more queries. With `by = mean` the sum is
// divided by how many could see it, as kvpress does.
#ifndef NG_PLUGINS_POLICY_OBSERVED_OBSERVED_H_
#define NG_PLUGINS_POLICY_OBSERVED_OBSERVED_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "ng/policy.h"

namespace ng {

inline constexpr OptionSpec kObservedOptions[] = {
    ChoiceOption("by", "sum", "sum|mean",
                 "sum: of the attention that a token got; mean: divided by how many queries could "
                 "see it")};

class ObservedPolicy final : public Policy {
 public:
  explicit ObservedPolicy(const PluginContext& context)
      : mean_(context.options.Text("by") == "mean") {}

  std::span<const std::string_view> needs() const override { return {&kNeedAttended, 1}; }

  absl::Status Score(const HeldTokens& tokens, std::span<float> scores) const override {
    for (size_t i = 0; i < scores.size(); ++i) {
      const auto n_queries = static_cast<float>(tokens.length - tokens.positions[i]);
      scores[i] = mean_ ? tokens.attended[i] / n_queries : tokens.attended[i];
    }
    return absl::OkStatus();
  }

 private:
  const bool mean_;
};

}  // namespace ng

#endif  // NG_PLUGINS_POLICY_OBSERVED_OBSERVED_H_
