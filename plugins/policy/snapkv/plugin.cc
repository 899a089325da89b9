#include "ng/plugin.h"

#include "plugins/policy/snapkv/snapkv.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::PolicyPlugin<ng::CreateSnapkvPolicy>(
        "snapkv", "1.0.0", "keeps the tokens that the last queries attend to, and their neighbours",
        ng::kSnapkvOptions);
