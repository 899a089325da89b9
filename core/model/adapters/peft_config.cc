#include "core/model/adapters/peft_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/formats/json.h"

namespace ng {
namespace {

constexpr Range<int64_t> kRanks = {1, 1 << 16};
constexpr Range<double> kAlphas = {-1e6, 1e6};
// For one module name; a pattern of such a file is a name, or little more.
constexpr int64_t kMostSteps = 100'000;

// Keys of which any value leaves the numbers as they are: how the adapter was trained, and what the
// names of its tensors say too.
constexpr std::array kInert = {"auto_mapping",
                               "base_model_name_or_path",
                               "bias",
                               "corda_config",
                               "ensure_weight_tying",
                               "eva_config",
                               "exclude_modules",
                               "inference_mode",
                               "layers_pattern",
                               "layers_to_transform",
                               "loftq_config",
                               "lora_dropout",
                               "megatron_core",
                               "modules_to_save",
                               "peft_version",
                               "qalora_group_size",
                               "revision",
                               "runtime_config",
                               "target_modules",
                               "task_type"};

// Keys that compute something else, unless they say nothing.
constexpr std::array kRefused = {
    "alora_invocation_tokens", "arrow_config", "layer_replication", "lora_bias", "megatron_config",
    "trainable_token_indices", "use_bdlora",   "use_qalora"};

// Ways to begin a training that change the model's own weights too; an adapter that was saved for
// the weights as they are says true.
absl::Status CheckBeginning(const JsonFields& config, const std::string& path) {
  constexpr const char* kKey = "init_lora_weights";
  const nlohmann::json* const how = config.Find(kKey);
  if (how == nullptr || !how->is_string()) return absl::OkStatus();
  const auto name = how->get<std::string>();
  if (name == "gaussian" || name == "eva" || name == "orthogonal") return absl::OkStatus();
  return ModelFileError(absl::StrCat(path, ": key \"", kKey, "\" = \"", name,
                                     "\", which changes the model's own weights; true, false, "
                                     "\"gaussian\", \"eva\" and \"orthogonal\" run"));
}

absl::Status CheckKind(const JsonFields& config, const std::string& path) {
  NG_ASSIGN_OR_RETURN(const std::string kind, config.Text("peft_type"));
  if (kind != "LORA") {
    return ModelFileError(absl::StrCat(
        path, ": key \"peft_type\" = ", JsonExcerpt(nlohmann::json(kind)), ", must be \"LORA\""));
  }
  for (const char* const key : kRefused) {
    const nlohmann::json* const value = config.Find(key);
    if (value == nullptr || SaysNothing(*value)) continue;
    return ModelFileError(absl::StrCat(path, ": key \"", key, "\" = ", JsonExcerpt(*value),
                                       ", which ng does not run"));
  }
  return CheckBeginning(config, path);
}

// Modules by name, as PEFT looks for them: the end of the name, from a dot on.
template <typename T, typename Check>
absl::StatusOr<PeftConfig::Pattern<T>> ReadModulePattern(const JsonFields& config, const char* key,
                                                         const std::string& path, Check&& check) {
  PeftConfig::Pattern<T> pattern;
  const nlohmann::json* const object = config.Find(key);
  if (object == nullptr) return pattern;
  const std::string name = absl::StrCat(path, ": key \"", key, "\"");
  if (!object->is_object()) {
    return ModelFileError(absl::StrCat(name, " = ", JsonExcerpt(*object), ", must be an object"));
  }
  for (const auto& [module, value] : object->items()) {
    if (!value.is_number() || !check(value)) {
      return ModelFileError(absl::StrCat(name, ": \"", module, "\" = ", JsonExcerpt(value),
                                         ", must be a number as in \"r\" or \"lora_alpha\""));
    }
    absl::StatusOr<Regex> regex = Regex::Compile(absl::StrCat("^(?:.*\\.)?(?:", module, ")$"));
    if (!regex.ok()) return Annotate(regex.status(), absl::StrCat(name, ": \"", module, "\": "));
    pattern.emplace_back(*std::move(regex), value.template get<T>());
  }
  return pattern;
}

template <typename T>
absl::StatusOr<T> ValueOf(const PeftConfig::Pattern<T>& pattern, const std::string& module,
                          T otherwise) {
  for (const auto& [regex, value] : pattern) {
    SearchSteps steps = {.most = kMostSteps};
    const auto found = regex.Find(module, 0, steps);
    if (!found.ok()) {
      return ModelFileError(absl::StrCat("adapter_config.json: a pattern of ranks or alphas in \"",
                                         module, "\": ", found.status().message()));
    }
    if (*found) return value;
  }
  return otherwise;
}

}  // namespace

absl::StatusOr<int64_t> PeftConfig::RankOf(const std::string& module) const {
  return ValueOf(ranks, module, rank);
}

absl::StatusOr<double> PeftConfig::ScaleOf(const std::string& module) const {
  NG_ASSIGN_OR_RETURN(const int64_t own_rank, RankOf(module));
  NG_ASSIGN_OR_RETURN(const double own_alpha, ValueOf(alphas, module, alpha));
  const auto n = static_cast<double>(own_rank);
  return own_alpha / (by_root ? std::sqrt(n) : n);
}

absl::StatusOr<PeftConfig> ReadPeftConfig(const std::string& path, const KeyPolicy& keys) {
  NG_ASSIGN_OR_RETURN(const JsonDocument json, ReadJsonFile(path));
  NG_ASSIGN_OR_RETURN(const JsonFields config, JsonFields::Of(*json, path));
  NG_RETURN_IF_ERROR(CheckKind(config, path));
  PeftConfig read;
  NG_ASSIGN_OR_RETURN(read.rank, config.Int("r", kRanks));
  NG_ASSIGN_OR_RETURN(read.alpha, config.Number("lora_alpha", kAlphas));
  NG_ASSIGN_OR_RETURN(const auto by_root, config.OptionalBool("use_rslora"));
  NG_ASSIGN_OR_RETURN(const auto magnitudes, config.OptionalBool("use_dora"));
  read.by_root = by_root.value_or(false);
  read.magnitudes = magnitudes.value_or(false);
  NG_ASSIGN_OR_RETURN(read.ranks, ReadModulePattern<int64_t>(
                                      config, "rank_pattern", path, [](const nlohmann::json& n) {
                                        return n.is_number_integer() &&
                                               n.get<double>() >= static_cast<double>(kRanks.min) &&
                                               n.get<double>() <= static_cast<double>(kRanks.max);
                                      }));
  NG_ASSIGN_OR_RETURN(read.alphas, ReadModulePattern<double>(
                                       config, "alpha_pattern", path, [](const nlohmann::json& n) {
                                         return std::abs(n.get<double>()) <= kAlphas.max;
                                       }));
  NG_ASSIGN_OR_RETURN(auto parameters, config.OptionalTexts("target_parameters"));
  if (parameters) read.parameters = *std::move(parameters);
  // Whether a module's weight is stored the other way round is known from the model.
  NG_RETURN_IF_ERROR(config.OptionalBool("fan_in_fan_out").status());
  std::vector<std::string> unread = config.Unread();
  std::erase_if(unread, [](const std::string& key) {
    return std::ranges::find(kInert, std::string_view(key)) != kInert.end();
  });
  NG_RETURN_IF_ERROR(keys.Unread(path, unread));
  return read;
}

}  // namespace ng
