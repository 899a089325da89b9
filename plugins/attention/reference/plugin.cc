#include "ng/plugin.h"

#include "plugins/attention/reference/reference_attention.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::AttentionPlugin<ng::CreateReferenceAttention>(
        "reference", "1.0.0", "the formula, in double, one row at a time; reads any cache", {});
