#include "ng/plugin.h"

#include "plugins/sampler/top_k/top_k.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::IntOption("k", 50, {.min = 1, .max = 2147483647},
                  "how many tokens stay; of equal ones the lowest ids"),
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::TopK::Create(context.options.Int("k"));
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::SamplerPlugin<Create>("top_k", "1.0.0", "keeps the k most probable tokens", kOptions);
