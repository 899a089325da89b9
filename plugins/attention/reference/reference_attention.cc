#include "plugins/attention/reference/reference_attention.h"

#include <memory>

#include "ng/rule_attention.h"

namespace ng {

absl::StatusOr<std::unique_ptr<AttentionBackend>> CreateReferenceAttention(
    const PluginContext& context) {
  return std::make_unique<RuleAttention>(context);
}

}  // namespace ng
