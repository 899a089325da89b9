#include "ng/plugin.h"

#include "plugins/policy/observed/observed.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::PolicyPlugin<ng::ObservedPolicy>("observed", "1.0.0",
                                         "keeps the tokens that all queries attended to most",
                                         ng::kObservedOptions);
