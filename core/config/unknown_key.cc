#include "core/config/unknown_key.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/text.h"
#include "core/config/value.h"
#include "ng/names.h"

namespace ng {
namespace {

std::string Join(std::span<const std::string> names) {
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + name;
  return joined;
}

std::vector<std::string> Sections(std::span<const ConfigKey> keys) {
  std::vector<std::string> sections;
  for (const ConfigKey& key : keys) {
    const std::string section(SectionOf(key.key));
    if (std::find(sections.begin(), sections.end(), section) == sections.end()) {
      sections.push_back(section);
    }
  }
  return sections;
}

std::vector<std::string> KeysWithPrefix(std::span<const ConfigKey> keys, std::string_view prefix) {
  std::vector<std::string> names;
  for (const ConfigKey& key : keys) {
    if (key.key.starts_with(prefix)) names.push_back(key.key);
  }
  return names;
}

// "--threads" for "--run.threads": the keys that end in the name.
std::vector<std::string> KeysEndingIn(std::span<const ConfigKey> keys, std::string_view name) {
  const std::string dotted = Cat(".", name);
  std::vector<std::string> names;
  for (const ConfigKey& key : keys) {
    if (key.key.ends_with(dotted)) names.push_back(key.key);
  }
  return names;
}

std::string UnknownSection(std::string_view key, std::span<const ConfigKey> keys) {
  const std::string_view section = SectionOf(key);
  if (section == key) {  // no dot at all
    const std::vector<std::string> meant = KeysEndingIn(keys, key);
    if (!meant.empty()) return "unknown key; did you mean " + Join(meant) + "?";
    return "unknown key, must be section.key with a section of " + Join(Sections(keys));
  }
  const std::vector<std::string> sections = Sections(keys);
  const std::string unknown = Cat("unknown section [", Shown(section), "]");
  if (const auto nearest = NearestName(section, sections)) {
    return unknown + "; did you mean [" + *nearest + "]?";
  }
  return unknown + ", must be one of " + Join(sections);
}

}  // namespace

absl::Status UnknownKeyError(const ConfigEntry& entry, std::span<const ConfigKey> keys) {
  const std::string_view key = entry.key;
  const std::string section = Cat(SectionOf(key), ".");
  const std::vector<std::string> siblings = KeysWithPrefix(keys, section);
  if (siblings.empty() || !key.starts_with(section)) {
    return EntryError(entry, UnknownSection(key, keys));
  }
  // section.plugin.option: say it when the whole plugin is missing.
  std::string unknown = "unknown key";
  const size_t second_dot = key.find('.', section.size());
  if (second_dot != std::string_view::npos &&
      KeysWithPrefix(keys, key.substr(0, second_dot + 1)).empty()) {
    const std::string_view plugin = key.substr(section.size(), second_dot - section.size());
    unknown += Cat(" (no ", SectionOf(key), " plugin '", plugin, "' is in use)");
  }
  if (const auto nearest = NearestName(key, siblings)) {
    return EntryError(entry, unknown + "; did you mean " + *nearest + "?");
  }
  return EntryError(entry, unknown + ", must be one of " + Join(siblings));
}

}  // namespace ng
