// Fast causal attention over tiles of 16 tokens ("tiles16"), codecs f32, bf16, f16, int8 and int4,
// grouped heads, head_dim and v_head_dim 1..1024. See flash_kernel.h for what is computed and in
// which order.
#ifndef NG_PLUGINS_ATTENTION_FLASH_FLASH_ATTENTION_H_
#define NG_PLUGINS_ATTENTION_FLASH_FLASH_ATTENTION_H_

#include <memory>

#include "ng/attention_backend.h"
#include "ng/plugin.h"
#include "ng/status.h"

namespace ng {

absl::StatusOr<std::unique_ptr<AttentionBackend>> CreateFlashAttention(
    const PluginContext& context);

}  // namespace ng

#endif  // NG_PLUGINS_ATTENTION_FLASH_FLASH_ATTENTION_H_
