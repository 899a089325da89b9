// Attention with linear biases (Press et al. 2022): a score falls with the distance of its key, by
// a slope that each head has for itself.
#include <cmath>

#include "ng/rule_attention.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::RealOption("strength", 1, {.min = 0, .max = 100}, "factor of the slopes; 0: no biases")};

class Alibi final : public ng::RuleAttention {
 public:
  explicit Alibi(const ng::PluginContext& context)
      : RuleAttention(context), strength_(context.options.Real("strength")) {}

 private:
  void Change(const ng::RuleQuery& query, std::span<float> scores) const override {
    int power = 1;  // the largest power of two that is no more than the heads
    while (power * 2 <= query.spec->n_heads) power *= 2;
    const int head = query.head;
    const double slope =
        strength_ * (head < power ? std::exp2(-8.0 * (head + 1) / power)
                                  : std::exp2(-4.0 * (2 * (head - power) + 1) / power));
    for (size_t j = 0; j < scores.size(); ++j) {
      scores[j] -= static_cast<float>(slope * static_cast<double>(scores.size() - 1 - j));
    }
  }

  const double strength_;
};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::WithProfile(
    ng::PartProfile::kMasked,
    ng::AttentionPlugin<Alibi>("alibi", "1.0.0", "linear biases by distance, any cache", kOptions));
