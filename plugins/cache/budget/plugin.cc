#include "ng/plugin.h"

#include "plugins/cache/budget/budget_store.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::CachePlugin<ng::PlanBudgetStore, ng::CreateBudgetStore>(
        "budget", "1.0.0",
        "so many tokens of each sequence, those that a policy keeps; f32, bf16, f16, int8 or int4",
        ng::kBudgetOptions);
