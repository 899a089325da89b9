#include "ng/plugin.h"

#include "plugins/policy/random/random.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::PolicyPlugin<ng::RandomPolicy>("random", "1.0.0", "keeps any tokens, by a seed",
                                       ng::kRandomOptions);
