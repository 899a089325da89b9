#include "ng/plugin.h"

#include "plugins/sampler/temperature/temperature.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::RealOption("value", 0.9, {.min = 0, .max = 100, .min_open = true},
                   "the divisor; the limit at 0 is the stage greedy"),
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::Temperature::Create(context.options.Real("value"));
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::SamplerPlugin<Create>(
    "temperature", "1.0.0", "divides the logits by a temperature", kOptions);
