// Keeps the tokens that the queries to come are expected to attend to most (Devoto et al. 2025,
// "Expected Attention: KV Cache Compression by Estimating Attention from Future Queries
// Distribution").
//
// The queries so far, before they are rotated, are taken to be from a normal distribution, and
// those to come from the same one, rotated to the mean of the next `future` positions. The expected
// weight of key k is then e^(s * mean . k + s * s / 2 * k . covariance . k), s being the scale of
// scores. Over the tokens behind the first `sinks` the weights are made shares, of which the mean
// is taken over the query heads that share the kv head; `epsilon` is added, and it is multiplied by
// the length of the token's value. The first `sinks` tokens stay, and their queries do not count.
// This is kvpress's definition, but for the scale of scores, which is the model's own; the paper
// goes by what a token adds to the residual stream, of which the length of its value is a measure.
// What a model adds to scores beside the product (slopes, soft caps, sinks) is not in it.
#ifndef NG_PLUGINS_POLICY_EXPECTED_ATTENTION_EXPECTED_ATTENTION_H_
#define NG_PLUGINS_POLICY_EXPECTED_ATTENTION_EXPECTED_ATTENTION_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "ng/policy.h"
#include "plugins/policy/expected_attention/expected_kernel.h"

namespace ng {

inline constexpr OptionSpec kExpectedAttentionOptions[] = {
    IntOption("future", 512, {.min = 1, .max = 1 << 20},
              "the positions to come, to which queries are rotated on the average"),
    IntOption("sinks", 4, {.min = 0, .max = 1 << 20},
              "the first tokens, which stay, and whose queries do not count"),
    BoolOption("covariance", true, "whether it counts how widely queries are spread"),
    BoolOption("value_norm", true, "whether shares are multiplied by the length of the value"),
    RealOption("epsilon", 0.0, {.min = 0.0, .max = 1.0}, "added to shares before that")};

class ExpectedAttentionPolicy final : public Policy {
 public:
  explicit ExpectedAttentionPolicy(const PluginContext& context);

  std::span<const std::string_view> needs() const override { return kNeeds; }
  int64_t first_query() const override { return sinks_; }
  absl::Status Score(const HeldTokens& tokens, std::span<float> scores) const override;

 private:
  static constexpr std::string_view kNeeds[] = {kNeedKeys, kNeedValues, kNeedQueryStatistics,
                                                kNeedRotation};

  const ExpectedKernel& kernel_;
  const int64_t future_;
  const int64_t sinks_;
  const bool covariance_;
  const bool value_norm_;
  const double epsilon_;
};

}  // namespace ng

#endif  // NG_PLUGINS_POLICY_EXPECTED_ATTENTION_EXPECTED_ATTENTION_H_
