#include "ng/plugin.h"

#include "plugins/cache/paged/paged_store.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    {.name = "page_tokens",
     .type = ng::OptionType::kInt,
     .default_value = "32",
     .min = 16,
     .max = 256,
     .min_open = false,
     .max_open = false,
     .choices = nullptr,
     .help = "tokens per page, a multiple of 16"},
    {.name = "pool_tokens",
     .type = ng::OptionType::kInt,
     .default_value = "0",
     .min = 0,
     .max = 0x1p63,
     .min_open = false,
     .max_open = false,
     .choices = nullptr,
     .help = "tokens of all pages, a multiple of page_tokens; 0: max_sequences of max_tokens each"},
    {.name = "share_prefixes",
     .type = ng::OptionType::kBool,
     .default_value = "true",
     .min = 0,
     .max = 0,
     .min_open = false,
     .max_open = false,
     .choices = nullptr,
     .help = "prompts that begin alike share the pages of what they have in common"},
};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::CachePlugin<ng::PlanPagedStore, ng::CreatePagedStore>(
        "paged", "1.0.0", "a pool of pages, shared where prompts begin alike; f32 to int4",
        kOptions);
