#include "ng/plugin.h"

#include "plugins/probe/steer/steer.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::WithExample(ng::TextListOption(
                        "points", "", "where the vector is added: names of points, * for any text"),
                    "layer0.out"),
    ng::WithExample(ng::TextOption("file", "", "the safetensors file that has the vector"),
                    "vector.safetensors"),
    ng::TextOption("tensor", "", "its name there; empty: the file's only tensor"),
    ng::RealOption("coefficient", 1.0, {}, "what the vector is multiplied with"),
    ng::TextListOption("positions", "all",
                       "all, prompt, answer, numbers, ranges as 2..5; -1: the prompt's last"),
    ng::BoolOption("may_miss", false, "a run in which no row is edited is no error"),
};

absl::StatusOr<std::unique_ptr<ng::Probe>> Create(const ng::PluginContext& context,
                                                  const ng::ProbeModel& model) {
  return ng::Steer::Create({.points = context.options.TextList("points"),
                            .file = context.options.Text("file"),
                            .tensor = context.options.Text("tensor"),
                            .coefficient = context.options.Real("coefficient"),
                            .positions = context.options.TextList("positions"),
                            .may_miss = context.options.Bool("may_miss")},
                           model);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::ProbePlugin<Create>(
    "steer", "1.0.0", "adds a vector from a file to the rows of points", kOptions);
