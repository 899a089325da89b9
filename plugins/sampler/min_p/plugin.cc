#include "ng/plugin.h"

#include "plugins/sampler/min_p/min_p.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::RealOption("p", 0.05, {.min = 0, .max = 1}, "the least ratio to the most probable token"),
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::MinP::Create(context.options.Real("p"));
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::SamplerPlugin<Create>(
    "min_p", "1.0.0", "keeps the tokens at least p times as probable as the best", kOptions);
