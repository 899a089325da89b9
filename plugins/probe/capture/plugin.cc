#include "ng/plugin.h"

#include "plugins/probe/capture/capture.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::TextListOption("points", "layer*.out", "which: names of points, * for any text"),
    ng::WithExample(ng::TextOption("file", "", "the safetensors file to write"),
                    "rows.safetensors"),
};

absl::StatusOr<std::unique_ptr<ng::Probe>> Create(const ng::PluginContext& context,
                                                  const ng::ProbeModel& model) {
  return ng::Capture::Create(
      {.points = context.options.TextList("points"), .file = context.options.Text("file")}, context,
      model);
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::ProbePlugin<Create>("capture", "1.0.0", "writes the rows of points to a file", kOptions);
