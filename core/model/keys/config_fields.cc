#include "core/model/keys/config_fields.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/model/spec/limits.h"

namespace ng {

absl::StatusOr<int64_t> IntOr(const JsonFields& config, std::string_view key, Range<int64_t> range,
                              int64_t absent) {
  if (config.IsNull(key)) return config.Int(key, range);  // the error
  NG_ASSIGN_OR_RETURN(const std::optional<int64_t> found, config.OptionalInt(key, range));
  return found.value_or(absent);
}

absl::StatusOr<int64_t> SizeKey::Read(const JsonFields& config, Range<int64_t> range,
                                      int64_t absent, bool null_is_absent) const {
  const char* const name = config.Has(other_name) ? other_name : key;
  if (!null_is_absent) return IntOr(config, name, range, absent);
  NG_ASSIGN_OR_RETURN(const std::optional<int64_t> found, config.OptionalInt(name, range));
  return found.value_or(absent);
}

// Null is false, as Python takes it where a class allows it.
absl::StatusOr<bool> BoolOr(const JsonFields& config, std::string_view key, bool absent) {
  if (config.IsNull(key)) return false;
  NG_ASSIGN_OR_RETURN(const std::optional<bool> found, config.OptionalBool(key));
  return found.value_or(absent);
}

absl::StatusOr<Activation> ReadActivation(const JsonFields& config, const std::string& path,
                                          std::string_view key,
                                          std::span<const ActivationName> known) {
  NG_ASSIGN_OR_RETURN(const std::optional<std::string> found, config.OptionalText(key));
  std::vector<std::string_view> names;
  for (const ActivationName& row : known) {
    if (!found || *found == row.name) return row.activation;
    names.push_back(row.name);
  }
  return ModelFileError(absl::StrCat(
      path, ": key \"", absl::string_view(key.data(), key.size()), "\" = ", JsonExcerpt(*found),
      ", must be one of: ",
      absl::StrJoin(names, ", ", [](std::string* to, std::string_view name) { *to += name; })));
}

absl::Status Require(const JsonFields& config, const std::string& path, std::string_view key,
                     bool wanted) {
  NG_ASSIGN_OR_RETURN(const bool found, BoolOr(config, key, wanted));
  if (found == wanted) return absl::OkStatus();
  return ModelFileError(absl::StrCat(
      path, ": key \"", absl::string_view(key.data(), key.size()),
      wanted ? "\" = false, can run only with true" : "\" = true, can run only with false"));
}

absl::StatusOr<float> EpsOr(const JsonFields& config, std::string_view key, double absent) {
  if (config.IsNull(key)) return config.Number(key, kEps).status();  // the error
  NG_ASSIGN_OR_RETURN(const std::optional<double> found, config.OptionalNumber(key, kEps));
  return static_cast<float>(found.value_or(absent));
}

absl::StatusOr<bool> ReadSwitch(const JsonFields& config, const SwitchKey& wanted) {
  if (std::string_view(wanted.key).empty()) return wanted.absent;
  bool absent = wanted.absent;
  if (!std::string_view(wanted.older_key).empty()) {
    NG_ASSIGN_OR_RETURN(absent, BoolOr(config, wanted.older_key, absent));
  }
  return BoolOr(config, wanted.key, absent);
}

absl::StatusOr<double> FactorOr(const JsonFields& config, std::string_view key, double absent) {
  constexpr Range<double> kFactor = {1e-9, 1e9};
  if (config.IsNull(key)) return config.Number(key, kFactor).status();  // the error
  NG_ASSIGN_OR_RETURN(const std::optional<double> found, config.OptionalNumber(key, kFactor));
  return found.value_or(absent);
}

// is_causal is as true as Python takes it, and null is false.
absl::Status RequirePlain(const JsonFields& config, const std::string& path,
                          std::string_view method, bool by_layer) {
  for (const char* key : {"quantization_config", "per_layer_config"}) {
    if (by_layer && key == std::string_view("per_layer_config")) continue;
    const nlohmann::json* value = config.Find(key);
    if (value == nullptr || SaysNothing(*value)) continue;
    if (!method.empty() && value->is_object() && value->value("quant_method", "") == method) {
      continue;
    }
    return ModelFileError(absl::StrCat(path, ": key \"", key, "\" = ", JsonExcerpt(*value),
                                       ", can run only without"));
  }
  constexpr const char* kCausal = "is_causal";
  const nlohmann::json* value = config.Find(kCausal);
  const bool is_false = config.IsNull(kCausal) ||
                        (value != nullptr && (SaysNothing(*value) || *value == nlohmann::json(0)));
  if (!is_false) return absl::OkStatus();
  return ModelFileError(absl::StrCat(path, ": key \"", kCausal,
                                     "\" = ", value == nullptr ? "null" : JsonExcerpt(*value),
                                     ", can run only with true: each token sees those before it"));
}

}  // namespace ng
