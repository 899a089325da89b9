#include "ng/plugin.h"

#include "plugins/policy/lagkv/lagkv.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::PolicyPlugin<ng::LagkvPolicy>(
        "lagkv", "1.0.0", "keeps the tokens whose keys and values stand out from those that follow",
        ng::kLagkvOptions);
