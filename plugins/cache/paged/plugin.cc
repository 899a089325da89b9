#include "ng/plugin.h"

#include "plugins/cache/paged/paged_store.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::IntOption("page_tokens", 32, {.min = 16, .max = 256}, "tokens per page, a multiple of 16"),
    ng::IntOption(
        "pool_tokens", 0, {.min = 0},
        "tokens of all pages, a multiple of page_tokens; 0: max_sequences of max_tokens each"),
    ng::BoolOption("share_prefixes", true,
                   "prompts that begin alike share the pages of what they have in common"),
};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::CachePlugin<ng::PlanPagedStore, ng::CreatePagedStore>(
        "paged", "1.0.0", "a pool of pages, shared where prompts begin alike; f32 to int4",
        kOptions);
