#include "ng/plugin.h"

#include "plugins/sampler/top_p/top_p.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::RealOption("p", 0.95, {.min = 0, .max = 1, .min_open = true},
                   "the mass to reach; the most probable token always stays"),
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::TopP::Create(context.options.Real("p"));
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::SamplerPlugin<Create>(
    "top_p", "1.0.0", "keeps the smallest set of tokens whose mass reaches p", kOptions);
