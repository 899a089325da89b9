#include "core/runtime/assembly/named_model.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/model/names/model_names.h"
#include "core/model/names/ollama_store.h"

namespace ng {
namespace {

constexpr const char* kKey = "model.path";

ConfigEntry* LastOf(const char* key, std::vector<ConfigEntry>* entries) {
  const auto found = std::find_if(entries->rbegin(), entries->rend(),
                                  [&](const ConfigEntry& entry) { return entry.key == key; });
  return found == entries->rend() ? nullptr : &*found;
}

}  // namespace

absl::StatusOr<NameOfModel> ResolveModelName(std::vector<ConfigEntry>* entries) {
  NameOfModel named;
  ConfigEntry* const given = LastOf(kKey, entries);
  if (given == nullptr || !CanBeModelName(given->text)) return named;
  NG_ASSIGN_OR_RETURN(const std::string path, LookupEarly(*entries, kKey));
  std::error_code error;
  if (std::filesystem::exists(path, error)) return named;
  NG_ASSIGN_OR_RETURN(const std::string folders, LookupEarly(*entries, "model.folders"));
  NG_ASSIGN_OR_RETURN(const std::optional<FoundModel> found,
                      FindModel(given->text, ModelPlaces(SplitNames(folders))));
  if (!found) {
    named.unknown = absl::StrCat("; ", UnknownName(given->text));
    return named;
  }
  named.foreign_template = ForeignTemplateOf(*found);
  const std::string name = std::exchange(given->text, found->shown.path);
  NG_ASSIGN_OR_RETURN(const std::string wanted, LookupEarly(*entries, "run.model_defaults"));
  OllamaDefaults defaults;
  if (wanted == "true") {
    NG_ASSIGN_OR_RETURN(defaults, ReadOllamaDefaults(*found));
  }
  defaults.entries.push_back(
      {"serve.model", name, {ConfigOrigin::Kind::kModel, found->shown.path, 0}});
  // What the user says stands alone: a default that is no value of its key must not matter then.
  std::erase_if(defaults.entries, [&](const ConfigEntry& entry) {
    return std::ranges::count(*entries, entry.key, &ConfigEntry::key) != 0;
  });
  entries->insert(entries->begin(), std::make_move_iterator(defaults.entries.begin()),
                  std::make_move_iterator(defaults.entries.end()));
  named.sampling = std::move(defaults.sampling);
  return named;
}

}  // namespace ng
