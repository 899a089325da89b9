#include "core/config/config.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/config/text.h"
#include "core/config/unknown_key.h"
#include "core/config/value.h"

namespace ng {
std::vector<ConfigKey> GroupedBySection(std::span<const ConfigKey> keys) {
  std::map<std::string_view, size_t> rank;
  for (const ConfigKey& key : keys) rank.emplace(SectionOf(key.key), rank.size());
  std::vector<ConfigKey> grouped(keys.begin(), keys.end());
  std::stable_sort(grouped.begin(), grouped.end(), [&](const ConfigKey& a, const ConfigKey& b) {
    return rank.at(SectionOf(a.key)) < rank.at(SectionOf(b.key));
  });
  return grouped;
}

std::string ConfigOrigin::ToString() const {
  switch (kind) {
    case Kind::kDefault:
      return "default";
    case Kind::kFile:
      return file + ":" + std::to_string(line);
    case Kind::kCommandLine:
      return "command line";
    case Kind::kModel:
      return file;
  }
  return "unknown";
}

absl::StatusOr<std::vector<ConfigEntry>> ParseOverrides(std::span<const std::string> overrides) {
  std::vector<ConfigEntry> entries;
  for (const std::string& override_text : overrides) {
    const size_t equals = override_text.find('=');
    const std::string key = override_text.substr(0, equals);
    if (const auto fault = NameFault(key)) return UsageError("--" + Shown(key) + ": key " + *fault);
    if (equals == std::string::npos) {
      return UsageError(Cat("--", key, ": has no value, must be --", key, "=VALUE"));
    }
    ConfigEntry entry{key, override_text.substr(equals + 1), {}};
    entry.origin.kind = ConfigOrigin::Kind::kCommandLine;
    if (entry.text.find('\0') != std::string::npos) {
      return EntryError(entry, "must not hold a NUL byte");
    }
    NG_RETURN_IF_ERROR(SpellOut(&entry));
    entries.push_back(std::move(entry));
  }
  return entries;
}

absl::StatusOr<std::string> LookupEarly(std::span<const ConfigEntry> entries,
                                        std::string_view key) {
  const std::span<const ConfigKey> keys = CoreConfigKeys();
  const auto declared =
      std::find_if(keys.begin(), keys.end(), [&](const ConfigKey& k) { return k.key == key; });
  if (declared == keys.end()) throw std::logic_error("no core key " + std::string(key));
  ConfigEntry winner = DefaultEntry(*declared);
  for (const ConfigEntry& entry : entries) {
    if (entry.key == key) winner = entry;
  }
  NG_ASSIGN_OR_RETURN(CheckedValue checked, CheckValue(*declared, winner));
  return std::move(checked.value.text);
}

std::vector<std::string> SplitNames(std::string_view text) {
  if (Trim(text).empty()) return {};
  const std::vector<std::string_view> names = SplitTrimmed(text, ",");
  return {names.begin(), names.end()};
}

absl::StatusOr<Config> MakeConfig(std::span<const ConfigEntry> entries,
                                  std::span<const ConfigKey> keys) {
  std::vector<ConfigItem> items;
  std::map<std::string, size_t, std::less<>> index;  // key -> its place in items
  for (ConfigKey& key : GroupedBySection(keys)) {
    if (const auto fault = NameFault(key.key)) {
      return PluginError("option " + Shown(key.key) + ": its name " + *fault);
    }
    if (!index.emplace(key.key, items.size()).second) {
      return PluginError("option " + key.key + " is declared twice");
    }
    NG_ASSIGN_OR_RETURN(CheckedValue checked, CheckValue(key, DefaultEntry(key)));
    items.push_back(
        {std::move(key), std::move(checked.value), std::move(checked.list), ConfigOrigin()});
  }
  for (const ConfigEntry& entry : entries) {
    const auto found = index.find(entry.key);
    if (found == index.end()) return UnknownKeyError(entry, keys);
    ConfigItem& item = items[found->second];
    NG_ASSIGN_OR_RETURN(CheckedValue checked, CheckValue(item.declared, entry));
    item.value = std::move(checked.value);
    item.list = std::move(checked.list);
    item.origin = entry.origin;
  }
  return Config(std::move(items));
}

Config::Config(std::vector<ConfigItem> items) : items_(std::move(items)) {
  for (const ConfigItem& item : items_) index_.emplace(item.declared.key, index_.size());
}

const ConfigItem& Config::Find(std::string_view key) const {
  const auto found = index_.find(key);
  if (found == index_.end()) throw std::logic_error("no config key " + std::string(key));
  return items_[found->second];
}

const ConfigItem& Config::Find(std::string_view key, OptionType type) const {
  const ConfigItem& item = Find(key);
  if (item.value.type != type) {
    throw std::logic_error("config key " + std::string(key) + " is of another type");
  }
  return item;
}

bool Config::Bool(std::string_view key) const { return Find(key, OptionType::kBool).value.boolean; }
int64_t Config::Int(std::string_view key) const {
  return Find(key, OptionType::kInt).value.integer;
}
double Config::Real(std::string_view key) const { return Find(key, OptionType::kReal).value.real; }
const std::string& Config::Text(std::string_view key) const { return Find(key).value.text; }

std::span<const int64_t> Config::IntList(std::string_view key) const {
  return Find(key, OptionType::kIntList).value.List<int64_t>();
}

std::vector<std::string> Config::Names(std::string_view key) const { return SplitNames(Text(key)); }

const ConfigOrigin& Config::Origin(std::string_view key) const { return Find(key).origin; }

bool Config::IsDefault(std::string_view key) const {
  return Origin(key).kind == ConfigOrigin::Kind::kDefault;
}

std::string Config::Describe(std::string_view key) const {
  const ConfigOrigin& origin = Origin(key);
  const std::string name(key);
  return origin.kind == ConfigOrigin::Kind::kFile ? origin.ToString() + ": " + name : name;
}

std::vector<OptionValue> PluginValues(const Config& config, std::string_view kind,
                                      std::string_view plugin) {
  const std::string prefix = Cat(kind, ".", plugin, ".");
  std::vector<OptionValue> values;
  for (const ConfigItem& item : config.items()) {
    if (!item.declared.key.starts_with(prefix)) continue;
    OptionValue& value = values.emplace_back(item.value);
    value.name.erase(0, prefix.size());
  }
  return values;
}

std::string Config::ToIni() const {
  std::string ini;
  std::string_view section;
  for (const ConfigItem& item : items_) {
    const std::string_view key = item.declared.key;
    if (SectionOf(key) != section) {
      section = SectionOf(key);
      ini += Cat(ini.empty() ? "[" : "\n[", section, "]\n");
    }
    const std::string value = item.hidden() ? "# set, and not shown" : IniValue(item.value.text);
    ini += Cat(key.substr(section.size() + 1), value.empty() ? " =" : " = ", value, "\n");
  }
  return ini;
}

std::string Config::ToAnnotated() const {
  std::string lines;
  for (const ConfigItem& item : items_) {
    const std::string value = item.hidden() ? "(not shown)" : IniValue(item.value.text);
    lines += Cat(item.declared.key, " = ", value, "  (", item.origin.ToString(), ")\n");
  }
  return lines;
}

}  // namespace ng
