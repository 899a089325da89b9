#include "ng/plugin.h"

#include "plugins/sampler/logit_bias/logit_bias.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::TextListOption("bias", "", "id=bias pairs: 5=2.5,7=-inf; -inf: the token is never drawn"),
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::LogitBias::Create(context.options.TextList("bias"), context.model.vocab_size);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::SamplerPlugin<Create>(
    "logit_bias", "1.0.0", "adds a bias to the logits of given tokens", kOptions);
