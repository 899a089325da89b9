#include "ng/plugin.h"

#include "plugins/sampler/top_n_sigma/top_n_sigma.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::RealOption("n", 1, {.min = 0, .max = 100},
                   "how many standard deviations of the logits below the best a token may be"),
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::TopNSigma::Create(context.options.Real("n"));
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::SamplerPlugin<Create>(
    "top_n_sigma", "1.0.0", "keeps the tokens within n standard deviations of the best", kOptions);
