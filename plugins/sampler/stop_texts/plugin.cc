#include "ng/plugin.h"

#include "plugins/sampler/stop_texts/stop_texts.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::TextListOption("texts", "", "the answer ends before each of these texts: END,\\n\\n"),
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::StopTexts::Create(context.options.TextList("texts"), context);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::SamplerPlugin<Create>("stop_texts", "1.0.0", "ends the answer at given texts", kOptions);
