#include "ng/plugin.h"

#include "plugins/sampler/banned_tokens/banned_tokens.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    {.name = "ids",
     .type = ng::OptionType::kIntList,
     .default_value = "",
     .min = 0,
     .max = 2147483647,
     .min_open = false,
     .max_open = false,
     .choices = nullptr,
     .help = "token ids that are never drawn"},
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::BannedTokens::Create(context.options.IntList("ids"), context.model.vocab_size);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::SamplerPlugin<Create>("banned_tokens", "1.0.0", "never draws the given tokens", kOptions);
