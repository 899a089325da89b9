#include "ng/plugin.h"

#include "plugins/policy/window/window.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::PolicyPlugin<ng::WindowPolicy>("window", "1.0.0", "keeps the newest tokens", {});
