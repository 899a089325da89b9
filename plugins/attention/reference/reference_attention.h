// Attention written as the formula reads: the oracle that faster backends are compared with.
//
// It is RuleAttention (ng/rule_attention.h) without a rule of its own: any layout and codec, every
// feature, scores, exponentials and weighted sums in double, one after the other, stored as f32.
#ifndef NG_PLUGINS_ATTENTION_REFERENCE_REFERENCE_ATTENTION_H_
#define NG_PLUGINS_ATTENTION_REFERENCE_REFERENCE_ATTENTION_H_

#include <memory>

#include "ng/attention_backend.h"
#include "ng/plugin.h"
#include "ng/status.h"

namespace ng {

absl::StatusOr<std::unique_ptr<AttentionBackend>> CreateReferenceAttention(
    const PluginContext& context);

}  // namespace ng

#endif  // NG_PLUGINS_ATTENTION_REFERENCE_REFERENCE_ATTENTION_H_
