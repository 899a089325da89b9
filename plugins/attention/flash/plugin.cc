#include "ng/plugin.h"

#include "plugins/attention/flash/flash_attention.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::AttentionPlugin<ng::CreateFlashAttention>(
        "flash", "1.0.0",
        "fast: online softmax over tiles of 16 tokens; f32, bf16, f16, int8 or int4", {});
