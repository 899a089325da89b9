#include "ng/plugin.h"

#include "plugins/policy/expected_attention/expected_attention.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::PolicyPlugin<ng::ExpectedAttentionPolicy>(
        "expected_attention", "1.0.0",
        "keeps the tokens that queries to come are expected to attend to most",
        ng::kExpectedAttentionOptions);
