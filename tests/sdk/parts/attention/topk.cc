// Attention to the k keys of the largest scores, for each query and head; of equal ones the
// earliest.
#include <algorithm>
#include <functional>

#include "ng/rule_attention.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {ng::IntOption("k", 64, {.min = 1}, "keys that stay")};

class TopK final : public ng::RuleAttention {
 public:
  explicit TopK(const ng::PluginContext& context)
      : RuleAttention(context), k_(context.options.Int("k")) {}

 private:
  void Change(const ng::RuleQuery& query, std::span<float> scores) const override {
    if (std::ssize(scores) <= k_) return;
    std::ranges::copy(scores, query.room.begin());
    std::ranges::nth_element(query.room, query.room.begin() + (k_ - 1), std::greater<>());
    const float least = query.room[static_cast<size_t>(k_ - 1)];
    int64_t n_equal = k_ - std::ranges::count_if(scores, [&](float s) { return s > least; });
    for (float& score : scores) {
      if (score < least || (score == least && n_equal-- <= 0)) score = ng::kUnseen;
    }
  }

  const int64_t k_;
};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::WithProfile(
    ng::PartProfile::kMasked,
    ng::AttentionPlugin<TopK>("topk", "1.0.0", "the k best keys of a query, any cache", kOptions));
