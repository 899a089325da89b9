#include "ng/plugin.h"

#include "plugins/sampler/repetition_penalty/repetition_penalty.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    {.name = "value",
     .type = ng::OptionType::kReal,
     .default_value = "1.1",
     .min = 0,
     .max = 100,
     .min_open = true,
     .max_open = false,
     .choices = nullptr,
     .help = "positive logits of recent tokens are divided by it, others multiplied"},
    {.name = "window",
     .type = ng::OptionType::kInt,
     .default_value = "64",
     .min = 0,
     .max = 2147483647,
     .min_open = false,
     .max_open = false,
     .choices = nullptr,
     .help = "how many tokens of prompt and answer count as recent; 0: all"},
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::RepetitionPenalty::Create(
      {.value = context.options.Real("value"), .window = context.options.Int("window")},
      context.model);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::SamplerPlugin<Create>(
    "repetition_penalty", "1.0.0", "makes recent tokens less probable", kOptions);
