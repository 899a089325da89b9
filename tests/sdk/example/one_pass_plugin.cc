// The descriptor of the attention plugin "one_pass".
#include "ng/plugin.h"
#include "one_pass.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::AttentionPlugin<ng_example::OnePass>(
        "one_pass", "1.0.0", "one pass over the keys, any cache and codec; plain and slow", {});
