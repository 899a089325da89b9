#include "core/runtime/assembly/part_factory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/plugin/guarded_cache.h"
#include "core/runtime/assembly/option_keys.h"

namespace ng {
namespace {

// Deeper than anybody wraps parts on purpose.
constexpr int kMostDepth = 4;

}  // namespace

absl::StatusOr<Config> OptionsOf(const LoadedPlugin& plugin, std::span<const ConfigEntry> entries,
                                 std::span<const OptionOverride> overrides) {
  const std::string prefix =
      absl::StrCat(plugin.descriptor->kind, ".", plugin.descriptor->name, ".");
  std::vector<ConfigEntry> own;
  for (const ConfigEntry& entry : entries) {
    if (entry.key.starts_with(prefix)) own.push_back(entry);
  }
  for (const OptionOverride& override : overrides) {
    ConfigEntry& entry = own.emplace_back();
    entry.key = prefix + std::string(override.option);
    entry.text = override.value;
    entry.origin.kind = ConfigOrigin::Kind::kCommandLine;
  }
  return MakeConfig(own, OptionKeys(plugin));
}

PartFactory::PartFactory(PluginHost host, std::vector<ConfigEntry> entries, MakeContext context)
    : host_(std::move(host)), entries_(std::move(entries)), context_(std::move(context)) {}

void PartFactory::Remember(const LoadedPlugin& plugin, std::span<const OptionValue> values) {
  const std::string options =
      absl::StrJoin(values, ", ", [](std::string* out, const OptionValue& value) {
        absl::StrAppend(out, value.name, " = ", value.text);
      });
  const bool known = std::ranges::any_of(used_, [&](const Used& used) {
    return used.plugin.descriptor == plugin.descriptor && used.options == options;
  });
  if (!known) used_.push_back({plugin, options});
}

void PartFactory::KeepUsed(size_t n) {
  used_.erase(used_.begin() + static_cast<std::ptrdiff_t>(std::min(n, used_.size())), used_.end());
}

template <typename Make>
auto PartFactory::With(std::string_view kind, std::string_view name,
                       std::span<const OptionOverride> overrides, Make&& make)
    -> decltype(make(LoadedPlugin(), PluginContext())) {
  if (depth_ == kMostDepth) {
    return PluginError(absl::StrCat("plugins create one another more than ", kMostDepth,
                                    " deep; the last one asked for is ", std::string(kind), " '",
                                    std::string(name), "'"));
  }
  ++depth_;
  const absl::Cleanup leave = [this] { --depth_; };
  NG_ASSIGN_OR_RETURN(const LoadedPlugin plugin, host_.Load(kind, name));
  NG_ASSIGN_OR_RETURN(const Config options, OptionsOf(plugin, entries_, overrides));
  const std::vector<OptionValue> values = PluginValues(options, kind, name);
  Remember(plugin, values);
  PluginContext context = context_(values);
  if (stop_ != nullptr) context.stop = stop_;
  return make(plugin, context);
}

absl::StatusOr<std::unique_ptr<AttentionBackend>> PartFactory::CreateAttention(
    std::string_view name, std::span<const OptionOverride> overrides) {
  return With("attention", name, overrides,
              [](const LoadedPlugin& plugin, const PluginContext& context) {
                return ng::CreateAttention(plugin, context);
              });
}

absl::StatusOr<std::unique_ptr<CacheStore>> PartFactory::CreateCache(
    std::string_view name, const CacheSpec& spec, std::span<const OptionOverride> overrides) {
  return With("cache", name, overrides,
              [&spec](const LoadedPlugin& plugin,
                      const PluginContext& context) -> absl::StatusOr<std::unique_ptr<CacheStore>> {
                return ng::CreateCache(plugin, context, spec);
              });
}

absl::StatusOr<std::unique_ptr<SamplerStage>> PartFactory::CreateSampler(
    std::string_view name, std::span<const OptionOverride> overrides) {
  return With("sampler", name, overrides,
              [](const LoadedPlugin& plugin, const PluginContext& context) {
                return ng::CreateSampler(plugin, context);
              });
}

absl::StatusOr<CachePlan> PartFactory::PlanCache(std::string_view name, const CacheSpec& spec,
                                                 std::span<const OptionOverride> overrides) {
  return With("cache", name, overrides,
              [&spec](const LoadedPlugin& plugin, const PluginContext& context) {
                return ng::PlanCache(plugin, context, spec);
              });
}

absl::StatusOr<std::unique_ptr<Probe>> PartFactory::CreateProbe(
    std::string_view name, const ProbeModel& model, std::span<const OptionOverride> overrides) {
  return With("probe", name, overrides,
              [&model](const LoadedPlugin& plugin, const PluginContext& context) {
                return ng::CreateProbe(plugin, context, model);
              });
}

absl::StatusOr<std::unique_ptr<Drafter>> PartFactory::CreateDrafter(
    std::string_view name, std::span<const OptionOverride> overrides) {
  return With("drafter", name, overrides,
              [](const LoadedPlugin& plugin, const PluginContext& context) {
                return ng::CreateDrafter(plugin, context);
              });
}

absl::StatusOr<std::unique_ptr<Policy>> PartFactory::CreatePolicy(
    std::string_view name, std::span<const OptionOverride> overrides) {
  return With("policy", name, overrides,
              [](const LoadedPlugin& plugin, const PluginContext& context) {
                return ng::CreatePolicy(plugin, context);
              });
}

}  // namespace ng
