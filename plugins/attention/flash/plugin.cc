#include "ng/plugin.h"

#include "plugins/attention/flash/flash_attention.h"

namespace {

const char* Supported() { return nullptr; }

constexpr ng::AttentionFactory kFactory = {.create = ng::CreateFlashAttention};

}  // namespace

extern "C" NG_EXPORT const ng::PluginDescriptor ng_plugin = {
    .header = NG_PLUGIN_HEADER,
    .kind = "attention",
    .name = "flash",
    .version = "1.0.0",
    .summary = "fast: online softmax over tiles of 16 tokens, f32, bf16 or f16",
    .options = nullptr,
    .n_options = 0,
    .supported = Supported,
    .attention = &kFactory,
    .cache = nullptr,
    .sampler = nullptr,
};
