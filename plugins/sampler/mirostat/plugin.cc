#include "ng/plugin.h"

#include "plugins/sampler/mirostat/mirostat.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::RealOption("tau", 5, {.min = 0, .max = 100, .min_open = true},
                   "the surprise to hold, in bits a token"),
    ng::RealOption("eta", 0.1, {.min = 0, .max = 10}, "how fast it is held; 0: mu stays 2 tau"),
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::Mirostat::Create(
      {.tau = context.options.Real("tau"), .eta = context.options.Real("eta")}, context.model);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::WithProfile(
    ng::PartProfile::kConstraint,
    ng::SamplerPlugin<Create>("mirostat", "1.0.0", "holds the surprise of the text (version 2)",
                              kOptions));
