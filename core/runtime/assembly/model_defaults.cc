#include "core/runtime/assembly/model_defaults.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ng {
namespace {

constexpr const char* kChain = "sampler.chain";

bool Has(std::span<const std::string> chain, const char* stage) {
  return stage != nullptr && std::ranges::count(chain, stage) != 0;
}

const SuggestedSampling* Find(const SamplingSuggestions& suggestions, const SamplingKey& key) {
  const auto found = std::ranges::find(suggestions.values, &key, &SuggestedSampling::key);
  return found == suggestions.values.end() ? nullptr : &*found;
}

bool Sets(std::span<const ConfigEntry> entries, std::string_view prefix) {
  return std::ranges::any_of(
      entries, [&](const ConfigEntry& entry) { return entry.key.starts_with(prefix); });
}

// As transformers has it: a stage for each value that changes something. What the user sets an
// option of is there too. Lists alone, of banned tokens or of texts that end an answer, leave the
// rest of the chain as it is.
absl::StatusOr<std::vector<std::string>> SuggestedChain(const SamplingSuggestions& suggestions,
                                                        std::span<const ConfigEntry> entries) {
  const bool only_lists = std::ranges::all_of(
      suggestions.values, [](const auto& suggested) { return suggested.key->list; });
  if (only_lists) {
    NG_ASSIGN_OR_RETURN(std::string usual, LookupEarly(entries, kChain));
    std::vector<std::string> chain = SplitNames(usual);
    for (const SuggestedSampling& suggested : suggestions.values) {
      if (suggested.key->stage != nullptr) chain.insert(chain.begin(), suggested.key->stage);
    }
    return chain;
  }
  const bool draws = std::ranges::none_of(suggestions.values, [](const auto& suggested) {
    return suggested.key->IsOf("greedy") && suggested.value == 0.0;
  });
  std::vector<std::string> chain;
  for (const SamplingKey& key : SamplingKeys()) {
    if (key.stage == nullptr || key.role == SamplingRole::kDetail) continue;
    if (!draws && key.role != SamplingRole::kAlways) continue;
    const SuggestedSampling* const suggested = Find(suggestions, key);
    const double value = suggested == nullptr ? key.absent : suggested->value;
    if (value != key.neutral || Sets(entries, absl::StrCat("sampler.", key.stage, "."))) {
      chain.emplace_back(key.stage);
    }
  }
  if (!draws) chain.emplace_back("greedy");
  if (chain.empty()) chain.emplace_back("temperature");
  return chain;
}

ConfigEntry Default(const std::string& key, const std::string& text, const std::string& origin) {
  return {key, text, {ConfigOrigin::Kind::kModel, origin, 0}};
}

}  // namespace

absl::StatusOr<std::vector<ConfigEntry>> ModelDefaults(const SamplingSuggestions& suggestions,
                                                       std::span<const ConfigEntry> entries) {
  std::vector<ConfigEntry> defaults;
  NG_ASSIGN_OR_RETURN(const std::string wanted, LookupEarly(entries, "run.model_defaults"));
  const bool speaks = std::ranges::any_of(
      suggestions.values, [](const auto& suggested) { return suggested.key->stage != nullptr; });
  if (wanted == "false" || !speaks) return defaults;
  std::vector<std::string> chain;
  if (Sets(entries, kChain)) {
    NG_ASSIGN_OR_RETURN(const std::string named, LookupEarly(entries, kChain));
    chain = SplitNames(named);
  } else {
    NG_ASSIGN_OR_RETURN(chain, SuggestedChain(suggestions, entries));
    defaults.push_back(Default(kChain, absl::StrJoin(chain, ","), suggestions.path));
  }
  for (const SuggestedSampling& suggested : suggestions.values) {
    if (!Has(chain, suggested.key->stage) || suggested.key->option == nullptr) continue;
    const std::string key =
        absl::StrCat("sampler.", suggested.key->stage, ".", suggested.key->option);
    if (!Sets(entries, key)) defaults.push_back(Default(key, suggested.number, suggested.origin));
  }
  // A chain that must not be empty, and a file that says nothing of the temperature.
  const bool alone = !defaults.empty() && chain == std::vector<std::string>{"temperature"};
  if (alone && defaults.size() == 1 && !Sets(entries, "sampler.temperature.")) {
    defaults.push_back(Default("sampler.temperature.value", "1", suggestions.path));
  }
  return defaults;
}

std::string UnusedSampling(const SamplingSuggestions& suggestions, const Config& config) {
  const std::vector<std::string> chain = config.Names(kChain);
  std::vector<std::string> unused;
  for (const SuggestedSampling& suggested : suggestions.values) {
    const SamplingKey& key = *suggested.key;
    const bool runs = Has(chain, key.stage);
    if (key.role == SamplingRole::kDetail && (!runs || suggested.text.empty())) continue;
    double done = key.neutral;
    if (runs) {
      if (key.option == nullptr) continue;
      const std::vector<OptionValue> values = PluginValues(config, "sampler", key.stage);
      const auto value = std::ranges::find(values, key.option, &OptionValue::name);
      if (value != values.end() && key.list) {
        done = value->text == suggested.number ? suggested.value : key.neutral;
      } else if (value != values.end()) {
        done = value->type == OptionType::kInt ? static_cast<double>(value->integer) : value->real;
      }
    }
    if (static_cast<float>(suggested.value) == static_cast<float>(done)) continue;
    unused.push_back(suggested.text);
  }
  if (unused.empty()) return "";
  const std::string file = std::filesystem::path(suggestions.path).filename().string();
  return absl::StrCat(file, "'s ", absl::StrJoin(unused, ", "), unused.size() == 1 ? " is" : " are",
                      " not used");
}

}  // namespace ng
