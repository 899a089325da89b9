#include "ng/plugin.h"

#include "plugins/attention/reference/reference_attention.h"

namespace {

const char* Supported() { return nullptr; }

constexpr ng::AttentionFactory kFactory = {.create = ng::CreateReferenceAttention};

}  // namespace

extern "C" NG_EXPORT const ng::PluginDescriptor ng_plugin = {
    .header = NG_PLUGIN_HEADER,
    .kind = "attention",
    .name = "reference",
    .version = "1.0.0",
    .summary = "the formula, in double, one row at a time; reads any cache",
    .options = nullptr,
    .n_options = 0,
    .supported = Supported,
    .attention = &kFactory,
    .cache = nullptr,
    .sampler = nullptr,
};
