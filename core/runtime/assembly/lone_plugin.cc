#include "ng/lone_plugin.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/config/config.h"
#include "core/plugin/loader.h"
#include "core/runtime/assembly/part_factory.h"

namespace ng {
namespace {

class Opened final : public LonePlugin {
 public:
  Opened(const PluginDescriptor& descriptor, Config config, PluginHost host,
         std::vector<ConfigEntry> entries)
      : descriptor_(descriptor),
        config_(std::move(config)),
        values_(PluginValues(config_, descriptor.kind, descriptor.name)),
        host_(std::move(host), std::move(entries), [this](const std::vector<OptionValue>& inner) {
          PluginContext context = context_;
          context.options = OptionValues(inner);
          return context;
        }) {}

  const PluginDescriptor& descriptor() const override { return descriptor_; }
  absl::StatusOr<std::unique_ptr<AttentionBackend>> CreateAttention(
      const PluginContext& context) override {
    return descriptor_.attention->create(Completed(context));
  }
  absl::StatusOr<std::unique_ptr<CacheStore>> CreateCache(const PluginContext& context,
                                                          const CacheSpec& spec) override {
    return descriptor_.cache->create(Completed(context), spec);
  }
  absl::StatusOr<CachePlan> PlanCache(const PluginContext& context,
                                      const CacheSpec& spec) override {
    return descriptor_.cache->plan(Completed(context), spec);
  }
  absl::StatusOr<std::unique_ptr<SamplerStage>> CreateSampler(
      const PluginContext& context) override {
    return descriptor_.sampler->create(Completed(context));
  }
  absl::StatusOr<std::unique_ptr<Probe>> CreateProbe(const PluginContext& context,
                                                     const ProbeModel& model) override {
    return descriptor_.probe->create(Completed(context), model);
  }
  absl::StatusOr<std::unique_ptr<Drafter>> CreateDrafter(const PluginContext& context) override {
    return descriptor_.drafter->create(Completed(context));
  }
  absl::StatusOr<std::unique_ptr<Fabric>> CreateFabric(const PluginContext& context,
                                                       const FabricSpec& spec) override {
    return descriptor_.fabric->create(Completed(context), spec);
  }
  absl::StatusOr<std::unique_ptr<Policy>> CreatePolicy(const PluginContext& context) override {
    return descriptor_.policy->create(Completed(context));
  }
  PartHost& HostFor(const PluginContext& context) override {
    context_ = context;
    context_.host = &host_;
    return host_;
  }

 private:
  PluginContext Completed(PluginContext context) {
    context.host = &HostFor(context);
    context.options = OptionValues(values_);
    return context;
  }

  const PluginDescriptor& descriptor_;  // in the library, mapped for ever
  const Config config_;                 // of its options
  const std::vector<OptionValue> values_;
  PluginContext context_;  // of inner parts
  PartFactory host_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LonePlugin>> LonePlugin::Open(const std::string& path,
                                                             std::span<const std::string> options,
                                                             std::span<const std::string> config) {
  NG_ASSIGN_OR_RETURN(const PluginFile file, PluginFileOf(path));
  NG_ASSIGN_OR_RETURN(const LoadedPlugin plugin, OpenPlugin(file));
  NG_ASSIGN_OR_RETURN(std::vector<ConfigEntry> entries, ParseOverrides(config));
  std::vector<std::string> directories;
  for (const ConfigEntry& entry : entries) {
    if (entry.key == "plugins.path") directories.push_back(entry.text);
  }
  // With the options behind them, which win.
  std::vector<std::string> named(config.begin(), config.end());
  for (const std::string& option : options) {
    named.push_back(absl::StrCat(file.kind, ".", file.name, ".", option));
  }
  NG_ASSIGN_OR_RETURN(const std::vector<ConfigEntry> layered, ParseOverrides(named));
  NG_ASSIGN_OR_RETURN(Config checked, OptionsOf(plugin, layered, {}));
  NG_ASSIGN_OR_RETURN(PluginHost host, PluginHost::Scan(directories));
  return std::make_unique<Opened>(*plugin.descriptor, std::move(checked), std::move(host),
                                  std::move(entries));
}

}  // namespace ng
