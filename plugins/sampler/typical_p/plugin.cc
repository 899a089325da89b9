#include "ng/plugin.h"

#include "plugins/sampler/typical_p/typical_p.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::RealOption("p", 0.95, {.min = 0, .max = 1, .min_open = true},
                   "the mass to reach with the most typical tokens; 1: all stay"),
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::TypicalP::Create(context.options.Real("p"));
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::SamplerPlugin<Create>(
    "typical_p", "1.0.0", "keeps the tokens whose surprise is nearest to the expected one",
    kOptions);
