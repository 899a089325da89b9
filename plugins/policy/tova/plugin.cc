#include "ng/plugin.h"

#include "plugins/policy/tova/tova.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::PolicyPlugin<ng::TovaPolicy>("tova", "1.0.0",
                                     "keeps the tokens that the newest query attends to most", {});
