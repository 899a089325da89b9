#include "ng/plugin.h"

#include "plugins/sampler/greedy/greedy.h"

namespace {

absl::StatusOr<std::unique_ptr<ng::SamplerStage>> Create(const ng::PluginContext& context) {
  (void)context;
  return std::make_unique<ng::Greedy>();
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::SamplerPlugin<Create>("greedy", "1.0.0", "takes the most probable token", {});
