// The descriptor of the sampler plugin "cycle_breaker": what the host reads, and nothing else.
#include <iterator>
#include <memory>

#include "cycle_breaker.h"
#include "ng/plugin.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    {.name = "run_length",
     .type = ng::OptionType::kInt,
     .default_value = "4",
     .min = 2,
     .max = 1024,
     .min_open = false,
     .max_open = false,
     .choices = nullptr,
     .help = "how many tokens in a row must not occur a second time"},
};

// The host has checked the value against the table above.
absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return std::make_unique<ng_example::CycleBreaker>(context.options.Int("run_length"));
}

const char* Supported() { return nullptr; }  // runs on every CPU

constexpr ng::SamplerFactory kFactory = {Create};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = {
    .header = NG_PLUGIN_HEADER,
    .kind = "sampler",
    .name = "cycle_breaker",
    .version = "1.0.0",
    .summary = "never draws a token that would repeat a run of tokens",
    .options = kOptions,
    .n_options = std::size(kOptions),
    .supported = Supported,
    .attention = nullptr,
    .cache = nullptr,
    .sampler = &kFactory,
};
