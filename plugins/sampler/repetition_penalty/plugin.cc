#include "ng/plugin.h"

#include "plugins/sampler/repetition_penalty/repetition_penalty.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::RealOption("value", 1.1, {.min = 0, .max = 100, .min_open = true},
                   "positive logits of recent tokens are divided by it, others multiplied"),
    ng::IntOption("window", 64, {.min = 0, .max = 2147483647},
                  "how many tokens of prompt and answer count as recent; 0: all"),
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::RepetitionPenalty::Create(
      {.value = context.options.Real("value"), .window = context.options.Int("window")},
      context.model);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::SamplerPlugin<Create>(
    "repetition_penalty", "1.0.0", "makes recent tokens less probable", kOptions);
