// Keeps the tokens that the last queries attend to most, and what stands beside these (Li et al.
// 2024, "SnapKV: LLM Knows What You Are Looking for Before Generation").
//
// The last `queries` tokens are the observation window, and stay. Of the tokens before it each has
// the attention that the window's queries gave it, added up over them and over the query heads that
// share the kv head. Its score is the mean of these over `kernel` neighbours, or with `pool = max`
// the largest: `kernel` / 2 tokens on either side, as far as they are held and before the window;
// where there are none the mean counts zeros. This is kvpress's definition; the paper's code makes
// the same with other numbers, and chooses by query head.
#ifndef NG_PLUGINS_POLICY_SNAPKV_SNAPKV_H_
#define NG_PLUGINS_POLICY_SNAPKV_SNAPKV_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "ng/policy.h"

namespace ng {

inline constexpr OptionSpec kSnapkvOptions[] = {
    IntOption("queries", 64, {.min = 1, .max = 1 << 20},
              "the last tokens, whose attention is what counts; they stay"),
    IntOption("kernel", 5, {.min = 1, .max = 1 << 10}, "an odd number of neighbours"),
    ChoiceOption("pool", "mean", "mean|max", "what is made of the neighbours' attention")};

class SnapkvPolicy final : public Policy {
 public:
  SnapkvPolicy(int64_t queries, int64_t kernel, bool largest)
      : queries_(queries), side_(kernel / 2), largest_(largest) {}

  std::span<const std::string_view> needs() const override { return {&kNeedAttended, 1}; }
  int64_t attended_queries() const override { return queries_; }
  absl::Status Score(const HeldTokens& tokens, std::span<float> scores) const override;

 private:
  const int64_t queries_;
  const int64_t side_;  // neighbours on either side
  const bool largest_;
};

// Errors: UsageError for an even number of neighbours.
absl::StatusOr<std::unique_ptr<Policy>> CreateSnapkvPolicy(const PluginContext& context);

}  // namespace ng

#endif  // NG_PLUGINS_POLICY_SNAPKV_SNAPKV_H_
