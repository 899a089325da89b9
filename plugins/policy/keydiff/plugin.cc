#include "ng/plugin.h"

#include "plugins/policy/keydiff/keydiff.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::PolicyPlugin<ng::KeydiffPolicy>(
        "keydiff", "1.0.0", "keeps the tokens whose keys are least like the others", {});
