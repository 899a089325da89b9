#include "ng/plugin.h"

#include "plugins/policy/knorm/knorm.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::PolicyPlugin<ng::KnormPolicy>("knorm", "1.0.0", "keeps the tokens with the shortest keys",
                                      {});
