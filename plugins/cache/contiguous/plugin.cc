#include "ng/plugin.h"

#include "plugins/cache/contiguous/contiguous_store.h"

namespace {

const char* Supported() { return nullptr; }

constexpr ng::CacheFactory kFactory = {
    .plan = ng::PlanContiguousStore,
    .create = ng::CreateContiguousStore,
};

}  // namespace

extern "C" NG_EXPORT const ng::PluginDescriptor ng_plugin = {
    .header = NG_PLUGIN_HEADER,
    .kind = "cache",
    .name = "contiguous",
    .version = "1.0.0",
    .summary = "one preallocated run of memory per sequence; f32, bf16 or f16",
    .options = nullptr,
    .n_options = 0,
    .supported = Supported,
    .attention = nullptr,
    .cache = &kFactory,
    .sampler = nullptr,
};
