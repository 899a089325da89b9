#include "ng/plugin.h"

#include "plugins/cache/contiguous/contiguous_store.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::CachePlugin<ng::PlanContiguousStore, ng::CreateContiguousStore>(
        "contiguous", "1.0.0",
        "one preallocated run of memory per sequence; f32, bf16, f16, int8 or int4", {});
