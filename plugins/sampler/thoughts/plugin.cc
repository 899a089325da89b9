#include "ng/plugin.h"

#include "plugins/sampler/thoughts/thoughts.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::IntOption("budget", 1024, {.min = 0, .max = 2147483647},
                  "the tokens of thoughts after which they are closed"),
    ng::TextOption("marks", "", "how thoughts are written, as JSON; empty: as the template does"),
};

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  return ng::Thoughts::Create(context.options.Int("budget"), context.options.Text("marks"),
                              context);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::WithProfile(ng::PartProfile::kConstraint,
                    ng::SamplerPlugin<Create>("thoughts", "1.0.0",
                                              "closes thoughts after so many tokens", kOptions));
