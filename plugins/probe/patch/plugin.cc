#include "ng/plugin.h"

#include <limits>

#include "plugins/probe/patch/patch.h"

namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

constexpr ng::OptionSpec kOptions[] = {
    ng::WithExample(ng::TextListOption("points", "", "where: names of points, * for any text"),
                    "layer0.out"),
    ng::WithExample(
        ng::TextOption(
            "file", "",
            "the safetensors file with the other run's rows, as capture or --save-tensors "
            "write it"),
        "rows.safetensors"),
    ng::IntOption("request", 0, {.min = 0, .max = kMost}, "which of the other run's requests"),
    ng::IntOption("shift", 0, {.min = -kMost, .max = kMost},
                  "position p gets the other run's row p + shift"),
    ng::TextListOption("positions", "all",
                       "all that the file has, prompt, answer, numbers, ranges as 2..5; -1: the "
                       "prompt's last"),
    ng::BoolOption("may_miss", false, "a run in which no row is edited is no error"),
};

absl::StatusOr<std::unique_ptr<ng::Probe>> Create(const ng::PluginContext& context,
                                                  const ng::ProbeModel& model) {
  return ng::Patch::Create({.points = context.options.TextList("points"),
                            .file = context.options.Text("file"),
                            .request = context.options.Int("request"),
                            .shift = context.options.Int("shift"),
                            .positions = context.options.TextList("positions"),
                            .may_miss = context.options.Bool("may_miss")},
                           model);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::ProbePlugin<Create>(
    "patch", "1.0.0", "replaces rows of points by those of another run", kOptions);
