#include "ng/plugin.h"

#include "plugins/sampler/banned_tokens/banned_tokens.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::IntListOption("ids", "", {.min = 0, .max = 2147483647}, "token ids that are never drawn"),
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::BannedTokens::Create(context.options.IntList("ids"), context.model.vocab_size);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::SamplerPlugin<Create>("banned_tokens", "1.0.0", "never draws the given tokens", kOptions);
