#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/config/cache_codecs.h"
#include "core/config/help.h"
#include "core/runtime/assembly/assembly.h"
#include "core/runtime/assembly/model_defaults.h"
#include "core/runtime/assembly/option_keys.h"

namespace ng {
namespace {

// The engine's keys, and the options of every plugin added.
class KeyTable {
 public:
  KeyTable() {
    const std::span<const ConfigKey> core = CoreConfigKeys();
    keys_.assign(core.begin(), core.end());
  }

  void Add(const LoadedPlugin& plugin) {
    if (!added_.insert(plugin.descriptor).second) return;
    const std::vector<ConfigKey> options = OptionKeys(plugin);
    keys_.insert(keys_.end(), options.begin(), options.end());
  }

  // A variable of the chat template.
  void Add(ConfigKey key) {
    if (std::ranges::count(keys_, key.key, &ConfigKey::key) == 0) keys_.push_back(std::move(key));
  }

  std::vector<ConfigKey> Take() { return std::move(keys_); }

 private:
  std::vector<ConfigKey> keys_;
  std::set<const PluginDescriptor*> added_;
};

absl::StatusOr<std::vector<ConfigEntry>> ReadEntries(const EngineOptions& options) {
  std::vector<ConfigEntry> entries;
  if (!options.config_file.empty()) {
    NG_ASSIGN_OR_RETURN(entries, ReadIniFile(options.config_file));
  }
  NG_ASSIGN_OR_RETURN(std::vector<ConfigEntry> overrides, ParseOverrides(options.overrides));
  std::move(overrides.begin(), overrides.end(), std::back_inserter(entries));
  return entries;
}

absl::StatusOr<PluginHost> Scan(std::span<const ConfigEntry> entries,
                                std::span<const LoadedPlugin> own) {
  NG_ASSIGN_OR_RETURN(const std::string directories, LookupEarly(entries, "plugins.path"));
  NG_ASSIGN_OR_RETURN(const std::string allow,
                      LookupEarly(entries, "plugins.allow_world_writable"));
  const auto writable = allow == "true" ? WorldWritable::kAllow : WorldWritable::kRefuse;
  NG_ASSIGN_OR_RETURN(PluginHost host, PluginHost::Scan(SplitNames(directories), writable));
  for (const LoadedPlugin& plugin : own) NG_RETURN_IF_ERROR(host.Add(plugin));
  return host;
}

// The plugin that a key's first two parts name, if there is one: sampler.top_k.k -> sampler top_k.
// Its options may be set while another plugin is chosen, so that one config serves several choices.
const PluginFile* NamedByKey(std::string_view key, const PluginHost& host) {
  const size_t kind_end = key.find('.');
  const size_t name_end = key.find('.', kind_end == key.npos ? key.npos : kind_end + 1);
  if (name_end == key.npos) return nullptr;
  const std::string_view kind = key.substr(0, kind_end);
  const std::string_view name = key.substr(kind_end + 1, name_end - kind_end - 1);
  for (const PluginFile& file : host.files()) {
    if (file.kind == kind && file.name == name) return &file;
  }
  return nullptr;
}

// The key that chooses plugins of a kind, and how near it was set.
struct Choice {
  std::string key;
  std::vector<std::string> names;
  ConfigOrigin::Kind origin = ConfigOrigin::Kind::kDefault;
};

absl::StatusOr<Choice> ChoiceOf(const std::string& kind, std::span<const ConfigEntry> entries) {
  Choice choice;
  choice.key = kind + (kind == "sampler" || kind == "probe" ? ".chain" : ".name");
  NG_ASSIGN_OR_RETURN(const std::string text, LookupEarly(entries, choice.key));
  choice.names = SplitNames(text);
  for (const ConfigEntry& entry : entries) {
    const bool by_user = entry.origin.kind != ConfigOrigin::Kind::kModel;
    if (entry.key == choice.key && by_user) choice.origin = entry.origin.kind;
  }
  return choice;
}

absl::StatusOr<std::vector<UnusedOption>> UnusedOptions(std::span<const ConfigEntry> entries,
                                                        const PluginHost& host) {
  std::vector<UnusedOption> unused;
  for (const ConfigEntry& entry : entries) {
    const PluginFile* const file = NamedByKey(entry.key, host);
    // A policy is chosen by the cache that asks it.
    if (file == nullptr || file->kind == "policy") continue;
    NG_ASSIGN_OR_RETURN(const Choice choice, ChoiceOf(file->kind, entries));
    const bool chosen = std::ranges::count(choice.names, file->name) != 0;
    if (chosen || entry.origin.kind < choice.origin) continue;
    const std::string text =
        absl::StrCat(entry.key, " (", choice.key, " = ", absl::StrJoin(choice.names, ","), ")");
    if (std::ranges::count(unused, text, &UnusedOption::text) == 0) {
      unused.push_back({file->kind, file->name, text});
    }
  }
  return unused;
}

// The plugins of a chain. `what` one of them is called.
absl::StatusOr<std::vector<LoadedPlugin>> LoadChain(std::span<const ConfigEntry> entries,
                                                    const std::string& kind, const char* what,
                                                    PluginHost& host) {
  const std::string key = kind + ".chain";
  NG_ASSIGN_OR_RETURN(const std::string chain, LookupEarly(entries, key));
  std::set<std::string> seen;
  for (const std::string& name : SplitNames(chain)) {
    if (seen.insert(name).second) continue;
    return UsageError(
        absl::StrCat(key, ": ", what, " '", name, "' is named twice; each may occur once"));
  }
  std::vector<LoadedPlugin> plugins;
  for (const std::string& name : SplitNames(chain)) {
    NG_ASSIGN_OR_RETURN(LoadedPlugin plugin, host.Load(kind, name));
    plugins.push_back(std::move(plugin));
  }
  return plugins;
}

// Where cache.codec alone means two codecs, both are written out: the config that is shown says
// what runs.
absl::Status WriteOutCodecs(std::vector<ConfigEntry>* entries) {
  NG_ASSIGN_OR_RETURN(const std::string codec, LookupEarly(*entries, "cache.codec"));
  const CodecNames names = ResolveCodecs(codec, "", "");
  if (names.k == names.v) return absl::OkStatus();
  for (const auto& [key, name] :
       {std::pair("cache.codec_k", names.k), {"cache.codec_v", names.v}}) {
    NG_ASSIGN_OR_RETURN(const std::string given, LookupEarly(*entries, key));
    if (given.empty()) entries->push_back({key, name, ConfigOrigin()});
  }
  return absl::OkStatus();
}

// The plugins that the entries name. The suggestions count where the entries say nothing.
absl::StatusOr<Selection> SelectFrom(std::vector<ConfigEntry> entries, PluginHost host,
                                     const SamplingSuggestions& suggestions) {
  Selection selection;
  selection.opened = entries;
  NG_ASSIGN_OR_RETURN(std::vector<ConfigEntry> defaults, ModelDefaults(suggestions, entries));
  entries.insert(entries.begin(), std::make_move_iterator(defaults.begin()),
                 std::make_move_iterator(defaults.end()));
  JoinStages(&entries);
  NG_ASSIGN_OR_RETURN(const std::string attention, LookupEarly(entries, "attention.name"));
  NG_ASSIGN_OR_RETURN(selection.attention, host.Load("attention", attention));
  NG_ASSIGN_OR_RETURN(const std::string cache, LookupEarly(entries, "cache.name"));
  NG_ASSIGN_OR_RETURN(selection.cache, host.Load("cache", cache));
  NG_ASSIGN_OR_RETURN(selection.stages, LoadChain(entries, "sampler", "stage", host));
  NG_ASSIGN_OR_RETURN(selection.probes, LoadChain(entries, "probe", "probe", host));
  NG_ASSIGN_OR_RETURN(const std::string drafter, LookupEarly(entries, "drafter.name"));
  if (drafter != kNoDrafter) {
    NG_ASSIGN_OR_RETURN(selection.drafter, host.Load("drafter", drafter));
  }

  NG_ASSIGN_OR_RETURN(const std::string fabric, LookupEarly(entries, "fabric.name"));
  NG_ASSIGN_OR_RETURN(selection.fabric, host.Load("fabric", fabric));

  KeyTable keys;
  keys.Add(selection.attention);
  keys.Add(selection.fabric);
  keys.Add(selection.cache);
  for (const LoadedPlugin& stage : selection.stages) keys.Add(stage);
  for (const LoadedPlugin& probe : selection.probes) keys.Add(probe);
  if (selection.drafter) keys.Add(*selection.drafter);
  for (const ConfigEntry& entry : entries) {
    if (const PluginFile* file = NamedByKey(entry.key, host)) {
      NG_ASSIGN_OR_RETURN(const LoadedPlugin plugin, host.Load(file->kind, file->name));
      keys.Add(plugin);
    }
    if (std::optional<ConfigKey> key = TemplateVariableKey(entry.key)) keys.Add(*std::move(key));
  }
  selection.keys = keys.Take();
  NG_ASSIGN_OR_RETURN(selection.unused_options, UnusedOptions(entries, host));
  NG_RETURN_IF_ERROR(WriteOutCodecs(&entries));
  NG_ASSIGN_OR_RETURN(selection.config, MakeConfig(entries, selection.keys));
  selection.host = std::move(host);
  selection.entries = std::move(entries);
  return selection;
}

}  // namespace

std::string OptionHelp(const LoadedPlugin& plugin) { return FormatOptionHelp(OptionKeys(plugin)); }

absl::StatusOr<PluginHost> ScanPlugins(const EngineOptions& options) {
  NG_ASSIGN_OR_RETURN(const std::vector<ConfigEntry> entries, ReadEntries(options));
  return Scan(entries, options.plugins);
}

absl::StatusOr<Selection> SelectForModel(const EngineOptions& options) {
  NG_ASSIGN_OR_RETURN(Selection selection, SelectPlugins(options));
  const Config& config = selection.config;
  const bool wanted = options.random_weights.empty() && config.Bool("run.model_defaults");
  if (!wanted || config.Text("model.path").empty()) return selection;
  KeyPolicy keys(/*strict=*/false, config.Names("model.ignore_keys"), [](std::string_view) {});
  NG_ASSIGN_OR_RETURN(const SamplingSuggestions suggestions,
                      ReadSamplingOf(config.Text("model.path"), keys));
  if (suggestions.values.empty()) return selection;
  return SelectAgain(selection, {}, Together(selection.named.sampling, suggestions));
}

absl::StatusOr<Selection> SelectPlugins(const EngineOptions& options) {
  NG_ASSIGN_OR_RETURN(std::vector<ConfigEntry> entries, ReadEntries(options));
  NG_ASSIGN_OR_RETURN(NameOfModel named, ResolveModelName(&entries));
  NG_ASSIGN_OR_RETURN(PluginHost host, Scan(entries, options.plugins));
  NG_ASSIGN_OR_RETURN(Selection selection,
                      SelectFrom(std::move(entries), std::move(host), named.sampling));
  selection.named = std::move(named);
  return selection;
}

absl::StatusOr<Selection> SelectAgain(const Selection& before, std::vector<ConfigEntry> added,
                                      const SamplingSuggestions& suggestions) {
  std::vector<ConfigEntry> entries = before.opened;
  entries.insert(entries.end(), added.begin(), added.end());
  NG_ASSIGN_OR_RETURN(Selection selection,
                      SelectFrom(std::move(entries), before.host, suggestions));
  selection.named = before.named;
  selection.opened = before.opened;
  selection.added = std::move(added);
  return selection;
}

}  // namespace ng
