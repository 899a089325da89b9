#include "apps/common/known_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/common/apart.h"
#include "ng/config.h"
#include "ng/key_help.h"
#include "ng/plugins.h"

namespace ng {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ValueWords::Kind;

// The plugins that a key like attention.name or sampler.chain chooses from; empty for other keys.
std::vector<std::string> PluginsFor(std::string_view key, std::span<const PluginFile> files) {
  std::vector<std::string> names;
  for (const PluginFile& file : files) {
    if (key == file.kind + ".name" || key == file.kind + ".chain") names.push_back(file.name);
  }
  return names;
}

KnownKey Known(const ConfigKey& key, ValueWords values) {
  KeyHelp help = HelpOf(key);
  return {.key = key.key,
          .help = key.spec->help == nullptr ? "" : key.spec->help,
          .default_value = std::move(help.default_value),
          .allowed = std::move(help.allowed),
          .values = std::move(values)};
}

// What a plugin says of itself. This runs the plugin's code.
std::string Entry(PluginHost& host, const PluginFile& file) {
  const absl::StatusOr<LoadedPlugin> plugin = host.Load(file.kind, file.name);
  if (!plugin.ok()) return "";
  const PluginDescriptor& descriptor = *plugin->descriptor;
  Json keys = Json::array();
  for (const OptionSpec& option : std::span(descriptor.options, descriptor.n_options)) {
    const ConfigKey key = {.key = absl::StrCat(file.kind, ".", file.name, ".", option.name),
                           .spec = &option};
    const KnownKey known = Known(key, WordsOf(key, {}));
    // A plugin's text may be the name of a file, which nothing else says.
    const bool text = option.type == OptionType::kText && option.choices == nullptr;
    keys.push_back({{"key", known.key},
                    {"help", known.help},
                    {"default", known.default_value},
                    {"allowed", known.allowed},
                    {"kind", text ? Kind::kFile : known.values.kind},
                    {"words", known.values.words}});
  }
  const Json entry = {{"summary", descriptor.summary}, {"keys", std::move(keys)}};
  return entry.dump(-1, ' ', true, Json::error_handler_t::replace);
}

void Add(const PluginFile& file, const Json& entry, KnownParts* parts) {
  parts->plugins.push_back({file.kind, file.name, entry["summary"]});
  for (const Json& key : entry["keys"]) {
    parts->keys.push_back({.key = key["key"],
                           .help = key["help"],
                           .default_value = key["default"],
                           .allowed = key["allowed"],
                           .values = {key["kind"].get<Kind>(), key["words"]}});
  }
}

}  // namespace

ValueWords WordsOf(const ConfigKey& key, std::span<const PluginFile> files) {
  const OptionSpec& spec = *key.spec;
  if (spec.type == OptionType::kBool) return {Kind::kOneOf, {"true", "false"}};
  if (spec.type != OptionType::kText) return {Kind::kAny, {}};
  if (spec.choices != nullptr) return {Kind::kOneOf, absl::StrSplit(spec.choices, '|')};
  switch (key.form) {
    case ConfigForm::kPath:
    case ConfigForm::kNameOrPath:
      return {Kind::kFile, {}};
    case ConfigForm::kPathList:
    case ConfigForm::kPathsWithScales:
    case ConfigForm::kNamedPathsWithScales:
      return {Kind::kFolder, {}};
    case ConfigForm::kNames:
      return {Kind::kListOf, PluginsFor(key.key, files)};
    default:
      break;
  }
  std::vector<std::string> plugins = PluginsFor(key.key, files);
  if (plugins.empty()) return {Kind::kAny, {}};
  return {Kind::kOneOf, std::move(plugins)};
}

absl::StatusOr<KnownParts> FindKnownParts(const EngineOptions& options) {
  NG_ASSIGN_OR_RETURN(const Config config, Engine::ReadConfig(options));
  NG_ASSIGN_OR_RETURN(PluginHost host, Engine::FindPlugins(options));
  const std::span<const PluginFile> files = host.files();
  KnownParts parts;
  for (const ConfigItem& item : config.items()) {
    const std::string& key = item.declared.key;
    // The options of the plugins that the config chooses are beside those of the others.
    const bool of_plugin = std::ranges::any_of(files, [&](const PluginFile& file) {
      return key.starts_with(absl::StrCat(file.kind, ".", file.name, "."));
    });
    if (!of_plugin) parts.keys.push_back(Known(item.declared, WordsOf(item.declared, files)));
  }
  for (const PluginFile& file : files) {
    NG_ASSIGN_OR_RETURN(const ApartResult result,
                        RunApart([&] { return Entry(host, file); }, {}, *options.stop));
    if (!result.returned || result.text.empty()) continue;
    Add(file, Json::parse(result.text), &parts);
  }
  return parts;
}

}  // namespace ng
