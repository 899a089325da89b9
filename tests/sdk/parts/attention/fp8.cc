// Plain attention over the layout of the cache fp8 and over no other.
#include "../cache/e4m3.h"
#include "ng/plugin.h"
#include "ng/rule_attention.h"

namespace {

class Fp8 final : public ng::RuleAttention {
 public:
  using RuleAttention::RuleAttention;
  std::span<const std::string_view> layouts() const override {
    static constexpr std::array kLayouts = {parts::kLayoutE4m3};
    return kLayouts;
  }
};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::AttentionPlugin<Fp8>("fp8", "1.0.0", "reads the cache fp8", {});
