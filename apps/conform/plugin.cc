#include "apps/conform/plugin.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/config/config.h"
#include "core/plugin/handshake.h"
#include "core/plugin/library.h"
#include "core/plugin/loader.h"
#include "core/runtime/assembly.h"
#include "core/runtime/part_factory.h"

namespace ng::conform {
namespace {

constexpr std::string_view kKinds[] = {"attention", "cache", "sampler"};

// "key=value", which the command line has given.
ConfigEntry EntryOf(std::string_view prefix, std::string_view text) {
  const size_t equals = std::min(text.find('='), text.size());
  ConfigEntry entry;
  entry.key = std::string(prefix) + std::string(text.substr(0, equals));
  entry.text = text.substr(std::min(equals + 1, text.size()));
  entry.origin.kind = ConfigOrigin::Kind::kCommandLine;
  return entry;
}

class Opened final : public OpenPlugin {
 public:
  Opened(const PluginDescriptor& descriptor, std::vector<OptionValue> values, PluginHost host,
         std::vector<ConfigEntry> entries)
      : descriptor_(descriptor),
        values_(std::move(values)),
        host_(std::move(host), std::move(entries), [this](const std::vector<OptionValue>& inner) {
          PluginContext context = context_;
          context.options = OptionValues(inner);
          return context;
        }) {}

  absl::StatusOr<std::unique_ptr<AttentionBackend>> Attention(
      const PluginContext& context) override {
    return descriptor_.attention->create(With(context));
  }
  absl::StatusOr<std::unique_ptr<CacheStore>> Cache(const PluginContext& context,
                                                    const CacheSpec& spec) override {
    return descriptor_.cache->create(With(context), spec);
  }
  absl::StatusOr<CachePlan> PlanCache(const PluginContext& context,
                                      const CacheSpec& spec) override {
    return descriptor_.cache->plan(With(context), spec);
  }
  absl::StatusOr<std::unique_ptr<SamplerStage>> Sampler(const PluginContext& context) override {
    return descriptor_.sampler->create(With(context));
  }
  PartHost& HostFor(const PluginContext& context) override {
    context_ = context;
    context_.host = &host_;
    return host_;
  }

 private:
  PluginContext With(PluginContext context) {
    context.host = &HostFor(context);
    context.options = OptionValues(values_);
    return context;
  }

  const PluginDescriptor& descriptor_;  // in the library, mapped for ever
  const std::vector<OptionValue> values_;
  PluginContext context_;  // of the part that is being made
  PartFactory host_;
};

}  // namespace

absl::StatusOr<PluginName> NameOf(const std::string& path) {
  const std::string file = std::filesystem::path(path).filename().string();
  for (const std::string_view kind : kKinds) {
    const std::string prefix = absl::StrCat("ng_", std::string(kind), "_");
    if (!file.starts_with(prefix) || !file.ends_with(".so")) continue;
    const std::string name = file.substr(prefix.size(), file.size() - prefix.size() - 3);
    if (!name.empty()) return PluginName{std::string(kind), name};
  }
  return PluginError(absl::StrCat(path,
                                  ": is not named ng_<kind>_<name>.so, with a kind of "
                                  "attention, cache or sampler"));
}

absl::StatusOr<std::unique_ptr<OpenPlugin>> OpenPlugin::Open(const std::string& path,
                                                             std::span<const std::string> options,
                                                             std::span<const std::string> config) {
  NG_ASSIGN_OR_RETURN(const PluginName name, NameOf(path));
  std::error_code error;
  const std::string real = std::filesystem::canonical(path, error).string();
  if (error) return PluginError(absl::StrCat(path, ": ", error.message()));
  NG_ASSIGN_OR_RETURN(const PluginDescriptor* descriptor, OpenPluginLibrary(real));
  NG_RETURN_IF_ERROR(Annotate(CheckDescriptor(*descriptor, name.kind, name.name),
                              absl::StrCat("plugin ", real, ": ")));
  std::vector<ConfigEntry> entries;
  std::vector<std::string> directories;
  for (const std::string& text : config) {
    entries.push_back(EntryOf("", text));
    if (entries.back().key == "plugins.path") directories.push_back(entries.back().text);
  }
  const std::string prefix = absl::StrCat(name.kind, ".", name.name, ".");
  std::vector<ConfigEntry> own;
  for (const ConfigEntry& entry : entries) {
    if (entry.key.starts_with(prefix)) own.push_back(entry);
  }
  for (const std::string& text : options) own.push_back(EntryOf(prefix, text));
  NG_ASSIGN_OR_RETURN(const Config checked,
                      Config::Build(own, OptionKeys(LoadedPlugin{descriptor, real})));
  NG_ASSIGN_OR_RETURN(PluginHost host, PluginHost::Scan(directories));
  return std::make_unique<Opened>(*descriptor, checked.PluginValues(name.kind, name.name),
                                  std::move(host), std::move(entries));
}

}  // namespace ng::conform
