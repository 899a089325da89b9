// The descriptor of the attention plugin "one_pass".
#include <memory>

#include "ng/plugin.h"
#include "one_pass.h"

namespace {

absl::StatusOr<std::unique_ptr<ng::AttentionBackend>> Create(const ng::PluginContext& context) {
  return std::make_unique<ng_example::OnePass>(context.executor);
}

const char* Supported() { return nullptr; }  // runs on every CPU

constexpr ng::AttentionFactory kFactory = {Create};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = {
    .header = NG_PLUGIN_HEADER,
    .kind = "attention",
    .name = "one_pass",
    .version = "1.0.0",
    .summary = "one pass over the keys, any cache and codec; plain and slow",
    .options = nullptr,
    .n_options = 0,
    .supported = Supported,
    .attention = &kFactory,
    .cache = nullptr,
    .sampler = nullptr,
};
