// PartFactory: what an engine gives its plugins as PartHost. It finds the inner plugin as the
// config's own choices are found, and checks its options by the same table.
#ifndef NG_CORE_RUNTIME_ASSEMBLY_PART_FACTORY_H_
#define NG_CORE_RUNTIME_ASSEMBLY_PART_FACTORY_H_

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config.h"
#include "core/plugin/loader.h"
#include "ng/part_host.h"

namespace ng {

// The options of one plugin: those of `entries` that are its own, in the order of layering, then
// `overrides`. Errors: UsageError for an option that it does not have, or a value that it does not
// allow.
absl::StatusOr<Config> OptionsOf(const LoadedPlugin& plugin, std::span<const ConfigEntry> entries,
                                 std::span<const OptionOverride> overrides);

class PartFactory final : public PartHost {
 public:
  // The context of a part with these options; called while a part is created.
  using MakeContext = std::function<PluginContext(const std::vector<OptionValue>& values)>;

  // `entries`: every config entry, in the order of layering.
  PartFactory(PluginHost host, std::vector<ConfigEntry> entries, MakeContext context);

  absl::StatusOr<std::unique_ptr<AttentionBackend>> CreateAttention(
      std::string_view name, std::span<const OptionOverride> overrides) override;
  absl::StatusOr<std::unique_ptr<CacheStore>> CreateCache(
      std::string_view name, const CacheSpec& spec,
      std::span<const OptionOverride> overrides) override;
  absl::StatusOr<std::unique_ptr<SamplerStage>> CreateSampler(
      std::string_view name, std::span<const OptionOverride> overrides) override;
  absl::StatusOr<CachePlan> PlanCache(std::string_view name, const CacheSpec& spec,
                                      std::span<const OptionOverride> overrides) override;
  absl::StatusOr<std::unique_ptr<Probe>> CreateProbe(
      std::string_view name, const ProbeModel& model,
      std::span<const OptionOverride> overrides) override;
  absl::StatusOr<std::unique_ptr<Drafter>> CreateDrafter(
      std::string_view name, std::span<const OptionOverride> overrides) override;
  absl::StatusOr<std::unique_ptr<Policy>> CreatePolicy(
      std::string_view name, std::span<const OptionOverride> overrides) override;

  // What parts are made with from now on: another config, and what ends the making of one that
  // takes long (PluginContext::stop; null: what `context` says).
  void SetEntries(std::vector<ConfigEntry> entries, const std::atomic<bool>* stop = nullptr) {
    entries_ = std::move(entries);
    stop_ = stop;
  }

  // A plugin that a part was made of or planned with, and its options: "p = 0.5, k = 3".
  struct Used {
    LoadedPlugin plugin;
    std::string options;
  };
  // Each pair once, in the order of first use.
  std::span<const Used> used() const { return used_; }
  // Forgets all but the first `n`: what came behind them was for a while.
  void KeepUsed(size_t n);

 private:
  // Loads the plugin, checks its options and calls `make(plugin, context)`.
  template <typename Make>
  auto With(std::string_view kind, std::string_view name, std::span<const OptionOverride> overrides,
            Make&& make) -> decltype(make(LoadedPlugin(), PluginContext()));
  void Remember(const LoadedPlugin& plugin, std::span<const OptionValue> values);

  PluginHost host_;
  std::vector<ConfigEntry> entries_;
  MakeContext context_;
  const std::atomic<bool>* stop_ = nullptr;
  std::vector<Used> used_;
  int depth_ = 0;  // of calls into create functions that are running now
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_ASSEMBLY_PART_FACTORY_H_
