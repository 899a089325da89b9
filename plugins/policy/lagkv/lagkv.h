// Keeps the tokens whose keys and values stand out from those that follow them (Liang et al. 2025,
// "LagKV: Lag-Relative Information of the KV Cache Tells Which Tokens Are Important").
//
// Behind the first `sinks` tokens come partitions of `lag` tokens. Each but the last is scaled, by
// dimension, with the least and the largest number of the partition behind it. A token's share is
// the standard deviation of its scaled row, made one of the partition's by a softmax; that of its
// key and that of its value are added. Its score is how many of the partition have less, divided by
// `lag`. The sinks, the last partition and what is behind it score 1. Where there are not two whole
// partitions, newer tokens score more. This is the definition of kvpress without cross scoring.
// Where the numbers of a dimension are all equal in a partition, it adds nothing to the deviation
// of the one before: the paper does not say what then.
#ifndef NG_PLUGINS_POLICY_LAGKV_LAGKV_H_
#define NG_PLUGINS_POLICY_LAGKV_LAGKV_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "ng/policy.h"

namespace ng {

inline constexpr OptionSpec kLagkvOptions[] = {
    IntOption("lag", 128, {.min = 1, .max = 1 << 20}, "tokens of a partition"),
    IntOption("sinks", 4, {.min = 0, .max = 1 << 20}, "tokens before the first partition")};

class LagkvPolicy final : public Policy {
 public:
  explicit LagkvPolicy(const PluginContext& context)
      : lag_(context.options.Int("lag")), sinks_(context.options.Int("sinks")) {}

  std::span<const std::string_view> needs() const override { return kNeeds; }
  absl::Status Score(const HeldTokens& tokens, std::span<float> scores) const override;

 private:
  static constexpr std::string_view kNeeds[] = {kNeedKeys, kNeedValues};

  const int64_t lag_;
  const int64_t sinks_;
};

}  // namespace ng

#endif  // NG_PLUGINS_POLICY_LAGKV_LAGKV_H_
