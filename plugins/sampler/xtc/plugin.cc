#include "ng/plugin.h"

#include "plugins/sampler/xtc/xtc.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::RealOption("probability", 0.5, {.min = 0, .max = 1}, "how often top choices are removed"),
    ng::RealOption("threshold", 0.1, {.min = 0, .max = 1, .min_open = true},
                   "the least probability of a top choice; above 0.5 nothing is removed"),
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::Xtc::Create({.probability = context.options.Real("probability"),
                          .threshold = context.options.Real("threshold")},
                         context.model.vocab_size);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::SamplerPlugin<Create>(
    "xtc", "1.0.0", "removes the most probable tokens but one, at random", kOptions);
