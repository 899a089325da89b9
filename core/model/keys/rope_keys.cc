#include "core/model/keys/rope_keys.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/model/keys/config_fields.h"
#include "core/model/spec/limits.h"

namespace ng {
namespace {

constexpr Range<double> kFactor = {1e-6, 1e6};
constexpr Range<double> kTurns = {1e-6, 1e6};

// The object that says how RoPE turns. As transformers has it, rope_scaling replaces
// rope_parameters as a whole; null: there is neither, or it is empty.
struct RopeObject {
  std::string key;
  std::optional<JsonFields> fields;
};

// The object of one type of layers. Errors: there is one for all.
absl::StatusOr<RopeObject> FindTypedRope(const JsonFields& config, const std::string& path,
                                         const std::string& type) {
  constexpr const char* kKey = "rope_parameters";
  if (config.Has(kKey)) {
    NG_ASSIGN_OR_RETURN(std::optional<JsonFields> all, config.OptionalObject(kKey));
    if (all->Has("full_attention") && all->Has("sliding_attention") &&
        !config.Has("rope_scaling")) {
      NG_ASSIGN_OR_RETURN(std::optional<JsonFields> fields, all->OptionalObject(type));
      return RopeObject{absl::StrCat(kKey, ".", type), std::move(fields)};
    }
    return ModelFileError(absl::StrCat(path, ": key \"", kKey,
                                       "\" must have full_attention and sliding_attention, and no "
                                       "rope_scaling beside it"));
  }
  if (type != "full_attention" || !config.Has("rope_scaling")) return RopeObject();
  NG_ASSIGN_OR_RETURN(std::optional<JsonFields> fields, config.OptionalObject("rope_scaling"));
  return RopeObject{"rope_scaling", std::move(fields)};
}

absl::StatusOr<RopeObject> FindRope(const JsonFields& config, const std::string& path,
                                    const std::string& type) {
  if (!type.empty()) return FindTypedRope(config, path, type);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.Has(key)) continue;
    NG_ASSIGN_OR_RETURN(std::optional<JsonFields> fields, config.OptionalObject(key));
    if (!fields->empty()) return RopeObject{key, std::move(fields)};
  }
  return RopeObject();
}

struct RopeSource {
  const JsonFields& config;
  const std::string& path;
  const RopeContext& context;
};

// The positions that a llama3 model was first trained on: as transformers has it, those beside the
// object go before those in it.
absl::StatusOr<int64_t> ReadOriginalPositions(const JsonFields& config, const JsonFields& rope,
                                              const RopeContext& context) {
  constexpr const char* kKey = "original_max_position_embeddings";
  std::optional<int64_t> found;
  for (const JsonFields& fields : {rope, config}) {
    NG_ASSIGN_OR_RETURN(const std::optional<int64_t> positions,
                        fields.OptionalInt(kKey, kPositions));
    if (positions) found = positions;
  }
  const int64_t absent = context.keys.original_positions;
  return found.value_or(absent > 0 ? absent : context.max_positions);
}

absl::Status ReadLlama3(const RopeSource& source, const RopeObject& rope, RopeScaling& scaling) {
  const auto& [config, path, context] = source;
  NG_ASSIGN_OR_RETURN(scaling.low_freq_factor, rope.fields->Number("low_freq_factor", kTurns));
  NG_ASSIGN_OR_RETURN(scaling.high_freq_factor, rope.fields->Number("high_freq_factor", kTurns));
  NG_ASSIGN_OR_RETURN(scaling.original_positions,
                      ReadOriginalPositions(config, *rope.fields, context));
  if (scaling.high_freq_factor > scaling.low_freq_factor) return absl::OkStatus();
  return ModelFileError(
      absl::StrCat(path, ": key \"", rope.key, ".high_freq_factor\" = ", scaling.high_freq_factor,
                   ", must be above low_freq_factor = ", scaling.low_freq_factor));
}

// A factor that may be absent, or null, or say nothing by 0 as Python takes it.
absl::StatusOr<double> NumberOr(const JsonFields& fields, const char* key, double absent) {
  NG_ASSIGN_OR_RETURN(const std::optional<double> found,
                      fields.OptionalNumber(key, {0.0, kFactor.max}));
  return found.value_or(0.0) == 0.0 ? absent : *found;
}

// Peng et al. 2023, as transformers has it.
absl::Status ReadYarn(const RopeSource& source, const RopeObject& rope, RopeSpec* spec) {
  const auto& [config, path, context] = source;
  const JsonFields& fields = *rope.fields;
  RopeScaling& scaling = spec->scaling;
  NG_ASSIGN_OR_RETURN(scaling.original_positions, ReadOriginalPositions(config, fields, context));
  const auto original = static_cast<double>(scaling.original_positions);
  NG_ASSIGN_OR_RETURN(const std::optional<double> factor, fields.OptionalNumber("factor", kFactor));
  if (!factor && fields.Find("factor") == nullptr && !fields.IsNull("factor")) {
    return fields.Number("factor", kFactor).status();  // the error
  }
  scaling.factor = factor.value_or(static_cast<double>(context.max_positions) / original);
  const auto magnitude = [&](double weight) {
    return scaling.factor <= 1.0 ? 1.0 : 0.1 * weight * std::log(scaling.factor) + 1.0;
  };
  NG_ASSIGN_OR_RETURN(const double scale, NumberOr(fields, "mscale", 0.0));
  NG_ASSIGN_OR_RETURN(const double scale_all, NumberOr(fields, "mscale_all_dim", 0.0));
  scaling.magnitude =
      scale > 0.0 && scale_all > 0.0 ? magnitude(scale) / magnitude(scale_all) : magnitude(1.0);
  NG_ASSIGN_OR_RETURN(const std::optional<double> given,
                      fields.OptionalNumber("attention_factor", {0.0, kFactor.max}));
  scaling.magnitude = given.value_or(scaling.magnitude);
  NG_ASSIGN_OR_RETURN(const double fast, NumberOr(fields, "beta_fast", 32.0));
  NG_ASSIGN_OR_RETURN(const double slow, NumberOr(fields, "beta_slow", 1.0));
  NG_ASSIGN_OR_RETURN(const bool whole, BoolOr(fields, "truncate", true));
  if (spec->theta <= 1.0) {
    return ModelFileError(
        absl::StrCat(path, ": key \"", rope.key, "\" is yarn, rope_theta must be above 1"));
  }
  // The pair that turns so many times over the original positions.
  const auto n_dims = static_cast<double>(spec->n_dims);
  const auto pair = [&](double turns) {
    return n_dims * std::log(original / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(spec->theta));
  };
  scaling.low_pair = std::max(whole ? std::floor(pair(fast)) : pair(fast), 0.0);
  scaling.high_pair = std::min(whole ? std::ceil(pair(slow)) : pair(slow), n_dims - 1.0);
  if (scaling.low_pair == scaling.high_pair) scaling.high_pair += 0.001;
  return absl::OkStatus();
}

// One factor above 0 for each pair.
absl::StatusOr<std::vector<double>> ReadFactors(const RopeSource& source, const RopeObject& rope,
                                                const char* key, int64_t n) {
  const nlohmann::json* const list = rope.fields->Find(key);
  std::vector<double> factors;
  if (list != nullptr && list->is_array()) {
    for (const nlohmann::json& value : *list) {
      if (value.is_number()) factors.push_back(value.get<double>());
    }
  }
  const bool fits =
      std::ranges::all_of(factors, [](double f) { return f >= kFactor.min && f <= kFactor.max; });
  if (fits && std::ssize(factors) == n && list->size() == factors.size()) return factors;
  return ModelFileError(absl::StrCat(source.path, ": key \"", rope.key, ".", key,
                                     "\" = ", list == nullptr ? "null" : JsonExcerpt(*list),
                                     ", must list ", n, " factors in [", kFactor.min, ", ",
                                     kFactor.max, "], one for each pair that turns"));
}

// Ding et al. 2024: factors for runs within the original positions, and for those beyond them.
absl::Status ReadLongRope(const RopeSource& source, const RopeObject& rope, RopeSpec* spec) {
  const auto& [config, path, context] = source;
  RopeScaling& scaling = spec->scaling;
  NG_ASSIGN_OR_RETURN(scaling.original_positions,
                      ReadOriginalPositions(config, *rope.fields, context));
  NG_ASSIGN_OR_RETURN(scaling.factors, ReadFactors(source, rope, "short_factor", spec->n_dims / 2));
  NG_ASSIGN_OR_RETURN(scaling.far_factors,
                      ReadFactors(source, rope, "long_factor", spec->n_dims / 2));
  const auto original = static_cast<double>(scaling.original_positions);
  NG_ASSIGN_OR_RETURN(const std::optional<double> factor,
                      rope.fields->OptionalNumber("factor", kFactor));
  scaling.factor = factor.value_or(static_cast<double>(context.max_positions) / original);
  if (scaling.factor > 1.0 && original > 1.0) {
    scaling.magnitude = std::sqrt(1.0 + std::log(scaling.factor) / std::log(original));
  }
  NG_ASSIGN_OR_RETURN(const std::optional<double> given,
                      rope.fields->OptionalNumber("attention_factor", {0.0, kFactor.max}));
  scaling.magnitude = given.value_or(scaling.magnitude);
  return absl::OkStatus();
}

// HunYuan's: the same frequencies at every length, of another base.
absl::Status ReadAlpha(const RopeObject& rope, RopeSpec* spec) {
  NG_ASSIGN_OR_RETURN(const std::optional<double> alpha,
                      rope.fields->OptionalNumber("alpha", {0.0, kTheta.max}));
  if (alpha.value_or(0.0) == 0.0) return absl::OkStatus();
  const auto n_dims = static_cast<double>(spec->n_dims);
  if (spec->n_dims > 2) spec->theta *= std::pow(*alpha, n_dims / (n_dims - 2.0));
  return absl::OkStatus();
}

// Whether a class has no other key about RoPE than the one that counts dimensions.
bool IsFixed(const RopeContext& context) {
  return !std::string_view(context.keys.n_dims).empty() &&
         std::string_view(context.keys.theta).empty();
}

// How many dimensions of a head turn, where a key says their number.
absl::StatusOr<int64_t> ReadCountedDims(const RopeSource& source) {
  const auto& [config, path, context] = source;
  const char* const key = context.keys.n_dims;
  const int64_t least = context.part == 0.0 && !IsFixed(context) ? context.head_dim : 2;
  if (config.IsNull(key)) return config.Int(key, {least, context.head_dim});  // the error
  NG_ASSIGN_OR_RETURN(const std::optional<int64_t> found,
                      config.OptionalInt(key, {least, context.head_dim}));
  const int64_t absent = context.keys.n_dims_absent;
  const int64_t n_dims = found.value_or(absent > 0 ? absent : context.head_dim);
  if (n_dims % 2 == 0 && n_dims <= context.head_dim) return n_dims;
  return ModelFileError(absl::StrCat(path, ": key \"", key, "\" = ", n_dims,
                                     ", must be an even number, at most ", context.head_dim,
                                     ", the dimensions of a head"));
}

// How many dimensions of a head turn.
absl::StatusOr<int64_t> ReadDims(const RopeSource& source, const RopeObject& rope) {
  const auto& [config, path, context] = source;
  if (!std::string_view(context.keys.n_dims).empty()) return ReadCountedDims(source);
  if (context.part == 0.0) return context.head_dim;
  std::optional<double> part;
  if (rope.fields) {
    NG_ASSIGN_OR_RETURN(part, rope.fields->OptionalNumber("partial_rotary_factor", {0.0, 1.0}));
  }
  if (!part) {
    NG_ASSIGN_OR_RETURN(part, config.OptionalNumber(context.keys.part, {0.0, 1.0}));
  }
  const char* const other = context.keys.absent_part;
  if (!part && !std::string_view(other).empty()) {
    NG_ASSIGN_OR_RETURN(const std::optional<int64_t> n_dims,
                        config.OptionalInt(other, {2, context.head_dim}));
    if (n_dims) part = static_cast<double>(*n_dims) / context.head_dim;
  }
  const auto n_dims =
      static_cast<int64_t>(static_cast<double>(context.head_dim) * part.value_or(context.part));
  if (n_dims > 0 && n_dims % 2 == 0) return n_dims;
  return ModelFileError(absl::StrCat(path, ": key \"", context.keys.part, "\": ", n_dims, " of ",
                                     context.head_dim,
                                     " dimensions of a head turn, must be an even number above 0"));
}

// Every dimension of a head turns, or the model cannot run.
absl::Status RequireWholeHeads(const JsonFields& fields, const std::string& where) {
  NG_ASSIGN_OR_RETURN(const std::optional<double> part,
                      fields.OptionalNumber("partial_rotary_factor", {0.0, 1.0}));
  if (part.value_or(1.0) == 1.0) return absl::OkStatus();
  return ModelFileError(
      absl::StrCat(where, "partial_rotary_factor\" = ", *part, ", can run only with 1"));
}

// A proportional table is as wide as a head: of its pairs a part turns, with the frequencies that
// they have among all of them.
absl::Status ReadTurning(const RopeSource& source, const RopeObject& rope, RopeSpec* spec) {
  const auto& [config, path, context] = source;
  constexpr const char* kKey = "partial_rotary_factor";
  NG_ASSIGN_OR_RETURN(const std::optional<double> part,
                      rope.fields->OptionalNumber(kKey, {0.0, 1.0}));
  const auto n_pairs = static_cast<int64_t>(part.value_or(1.0) * context.head_dim) / 2;
  if (spec->n_dims != context.head_dim) {
    return ModelFileError(absl::StrCat(path, ": key \"", rope.key,
                                       "\" is \"proportional\", can run only where all of a head "
                                       "turns"));
  }
  if (n_pairs < 1) {
    return ModelFileError(absl::StrCat(path, ": key \"", rope.key, ".", kKey, "\": ", n_pairs,
                                       " pairs of ", context.head_dim / 2,
                                       " turn, must be 1 at least"));
  }
  spec->n_turning = n_pairs < context.head_dim / 2 ? n_pairs : 0;
  return absl::OkStatus();
}

// What a type of transformers is here. A proportional one is linear, of the pairs that turn; a
// dynamic one changes nothing within max_position_embeddings, and nothing runs beyond.
constexpr struct {
  std::string_view type;
  RopeScalingKind kind;
} kTypes[] = {{"default", RopeScalingKind::kNone},        {"linear", RopeScalingKind::kLinear},
              {"proportional", RopeScalingKind::kLinear}, {"dynamic", RopeScalingKind::kNone},
              {"llama3", RopeScalingKind::kLlama3},       {"yarn", RopeScalingKind::kYarn},
              {"longrope", RopeScalingKind::kLongRope}};

absl::Status ReadScaling(const RopeSource& source, const RopeObject& rope, RopeSpec* spec) {
  const auto& [config, path, context] = source;
  const std::string where = absl::StrCat(path, ": key \"");
  // The newer name goes before the older one, whatever that says.
  const bool has_newer = rope.fields->Find("rope_type") != nullptr;
  const bool has_older = rope.fields->Find("type") != nullptr;
  const char* key = has_newer || !has_older ? "rope_type" : "type";
  NG_ASSIGN_OR_RETURN(const std::optional<std::string> found, rope.fields->OptionalText(key));
  std::string type = found.value_or("default");
  if (context.keys.yarn_is_longrope && (type == "su" || type == "yarn")) type = "longrope";
  const auto* const row =
      std::ranges::find(kTypes, type, [](const auto& known) { return known.type; });
  if (row == std::end(kTypes)) {
    return ModelFileError(absl::StrCat(where, rope.key, ".", key, "\" = ", JsonExcerpt(type),
                                       ", must be one of: default, linear, proportional, dynamic, "
                                       "llama3, yarn, longrope"));
  }
  const bool beside = !std::string_view(context.keys.part).empty();
  if (type == "default") {  // nobody reads a factor then
    // A class with a part in other tables leaves it out here.
    if (!beside) (void)rope.fields->Find("partial_rotary_factor");
    return absl::OkStatus();
  }
  const bool proportional = type == "proportional";
  if (context.part == 0.0 && !proportional) {
    NG_RETURN_IF_ERROR(RequireWholeHeads(*rope.fields, absl::StrCat(where, rope.key, ".")));
  }
  if (beside && (context.part == 0.0 || proportional)) {
    NG_RETURN_IF_ERROR(RequireWholeHeads(config, where));
  }
  if (proportional) NG_RETURN_IF_ERROR(ReadTurning(source, rope, spec));
  spec->scaling.kind = row->kind;
  if (row->kind == RopeScalingKind::kYarn) return ReadYarn(source, rope, spec);
  if (row->kind == RopeScalingKind::kLongRope) return ReadLongRope(source, rope, spec);
  if (context.keys.dynamic_alpha && type == "dynamic" && rope.fields->Has("alpha")) {
    return ReadAlpha(rope, spec);
  }
  if (proportional && !rope.fields->Has("factor")) {
    spec->scaling.kind = RopeScalingKind::kNone;
    return absl::OkStatus();
  }
  NG_ASSIGN_OR_RETURN(const double factor, rope.fields->Number("factor", kFactor));
  if (row->kind == RopeScalingKind::kNone) return absl::OkStatus();
  spec->scaling.factor = factor;
  return row->kind == RopeScalingKind::kLlama3 ? ReadLlama3(source, rope, spec->scaling)
                                               : absl::OkStatus();
}

}  // namespace

absl::StatusOr<RopeSpec> ReadRope(const JsonFields& config, const std::string& path,
                                  const RopeContext& context) {
  const RopeSource source = {config, path, context};
  RopeSpec spec = {.pairing = context.pairing, .theta = context.theta};
  if (IsFixed(context)) {
    NG_ASSIGN_OR_RETURN(spec.n_dims, ReadCountedDims(source));
    return spec;
  }
  NG_ASSIGN_OR_RETURN(const RopeObject rope, FindRope(config, path, context.layer_type));
  std::optional<double> theta;
  if (rope.fields) {
    NG_ASSIGN_OR_RETURN(theta, rope.fields->OptionalNumber("rope_theta", kTheta));
  }
  const bool beside = !std::string_view(context.keys.theta).empty();
  if (!theta && beside) {  // else nobody reads the one beside the object
    NG_ASSIGN_OR_RETURN(theta, config.OptionalNumber(context.keys.theta, kTheta));
  }
  spec.theta = theta.value_or(context.theta);
  NG_ASSIGN_OR_RETURN(spec.n_dims, ReadDims(source, rope));
  if (rope.fields) NG_RETURN_IF_ERROR(ReadScaling(source, rope, &spec));
  return spec;
}

}  // namespace ng
