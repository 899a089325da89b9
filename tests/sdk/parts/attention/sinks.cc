// Attention through a sliding window with sinks: a query sees the first tokens and the last ones.
// (Xiao et al. 2024. Keys are rotated by their absolute positions, so this is the mask of
// StreamingLLM and not its positions.)
#include "ng/rule_attention.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::IntOption("window", 256, {.min = 1}, "last tokens that a query sees, its own among them"),
    ng::IntOption("sinks", 4, {.min = 0}, "first tokens that it sees always")};

class Sinks final : public ng::RuleAttention {
 public:
  explicit Sinks(const ng::PluginContext& context)
      : RuleAttention(context),
        window_(context.options.Int("window")),
        sinks_(context.options.Int("sinks")) {}

 private:
  bool Sees(const ng::RuleQuery& query, int64_t key) const override {
    return key < sinks_ || key > query.pos - window_;
  }

  const int64_t window_;
  const int64_t sinks_;
};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::WithProfile(
    ng::PartProfile::kMasked,
    ng::AttentionPlugin<Sinks>("sinks", "1.0.0", "sliding window with sinks, any cache", kOptions));
