#include "ng/plugin.h"

#include "plugins/sampler/dry/dry.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::RealOption("multiplier", 0.8, {.min = 0, .max = 100},
                   "what the shortest repetition takes from the logit; 0: nothing is done"),
    ng::RealOption("base", 1.75, {.min = 1, .max = 10}, "the factor of each further token"),
    ng::IntOption("allowed", 2, {.min = 1, .max = 2147483647},
                  "repetitions shorter than so many tokens take nothing"),
    ng::IntOption("window", 0, {.min = 0, .max = 2147483647},
                  "how many tokens of prompt and answer are looked back on; 0: all"),
    ng::TextListOption("breakers", "\\n,:,\",*",
                       "no repetition reaches over a token that holds one of these texts"),
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::Dry::Create({.multiplier = context.options.Real("multiplier"),
                          .base = context.options.Real("base"),
                          .allowed = context.options.Int("allowed"),
                          .window = context.options.Int("window"),
                          .breakers = context.options.TextList("breakers")},
                         context);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::SamplerPlugin<Create>(
    "dry", "1.0.0", "makes tokens less probable that go on with a repetition", kOptions);
