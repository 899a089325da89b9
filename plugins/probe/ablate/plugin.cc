#include "ng/plugin.h"

#include <limits>

#include "plugins/probe/ablate/ablate.h"

namespace {

constexpr ng::IntBounds kIndex = {.min = 0, .max = std::numeric_limits<int32_t>::max()};

constexpr ng::OptionSpec kOptions[] = {
    ng::WithExample(ng::TextListOption("points", "", "where: names of points, * for any text"),
                    "layer0.out"),
    ng::IntListOption("heads", "", kIndex, "which heads, at points that have some"),
    ng::IntListOption("elements", "", kIndex,
                      "which elements of a row, such as the neurons of mlp_act; without heads and "
                      "elements the whole row"),
    ng::TextOption("means", "",
                   "a safetensors file with a tensor for each point, by its name, whose values "
                   "replace those of the row; empty: zero does"),
    ng::TextListOption("positions", "all",
                       "all, prompt, answer, numbers, ranges as 2..5; -1: the prompt's last"),
    ng::BoolOption("may_miss", false, "a run in which no row is edited is no error"),
};

absl::StatusOr<std::unique_ptr<ng::Probe>> Create(const ng::PluginContext& context,
                                                  const ng::ProbeModel& model) {
  return ng::Ablate::Create({.points = context.options.TextList("points"),
                             .heads = context.options.IntList("heads"),
                             .elements = context.options.IntList("elements"),
                             .means = context.options.Text("means"),
                             .positions = context.options.TextList("positions"),
                             .may_miss = context.options.Bool("may_miss")},
                            model);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::ProbePlugin<Create>(
    "ablate", "1.0.0", "sets heads or elements of rows to zero or to means", kOptions);
