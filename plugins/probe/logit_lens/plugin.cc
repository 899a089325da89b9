#include "ng/plugin.h"

#include <limits>

#include "plugins/probe/logit_lens/logit_lens.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::WithExample(ng::TextOption("file", "", "the file to write: JSON, a line for each position"),
                    "lens.jsonl"),
    ng::IntListOption("layers", "", {.min = 0, .max = std::numeric_limits<int32_t>::max()},
                      "behind which layers; empty: all"),
    ng::ChoiceOption("positions", "chosen", "chosen|all",
                     "chosen: those whose logits chose a token; all: those of the prompt too"),
    ng::IntOption("top", 10, {.min = 1, .max = 1000}, "how many tokens of each layer"),
};

absl::StatusOr<std::unique_ptr<ng::Probe>> Create(const ng::PluginContext& context,
                                                  const ng::ProbeModel& model) {
  return ng::LogitLens::Create({.file = context.options.Text("file"),
                                .layers = context.options.IntList("layers"),
                                .every_position = context.options.Text("positions") == "all",
                                .top = context.options.Int("top")},
                               context, model);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::ProbePlugin<Create>(
    "logit_lens", "1.0.0", "what the head makes of the stream behind each layer", kOptions);
