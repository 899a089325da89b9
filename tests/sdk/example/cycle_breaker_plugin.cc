// The descriptor of the sampler plugin "cycle_breaker": what the host reads, and nothing else.
#include "cycle_breaker.h"
#include "ng/plugin.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::IntOption("run_length", 4, {.min = 2, .max = 1024},
                  "how many tokens in a row must not occur a second time")};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::SamplerPlugin<ng_example::CycleBreaker>(
        "cycle_breaker", "1.0.0", "never draws a token that would repeat a run of tokens",
        kOptions);
