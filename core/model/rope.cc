#include "core/model/rope.h"

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
#include "core/model/limits.h"

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

absl::StatusOr<RopeObject> FindRope(const JsonFields& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.Has(key)) continue;
    NG_ASSIGN_OR_RETURN(std::optional<JsonFields> fields, config.OptionalObject(key));
    if (!fields->empty()) return RopeObject{key, std::move(fields)};
  }
  return RopeObject();
}

// The positions that a llama3 model was first trained on: as transformers has it, those beside the
// object go before those in it.
absl::StatusOr<int64_t> ReadOriginalPositions(const JsonFields& config, const JsonFields& rope,
                                              const ModelSpec& spec) {
  constexpr const char* kKey = "original_max_position_embeddings";
  std::optional<int64_t> found;
  for (const JsonFields& fields : {rope, config}) {
    NG_ASSIGN_OR_RETURN(const std::optional<int64_t> positions,
                        fields.OptionalInt(kKey, kPositions));
    if (positions) found = positions;
  }
  return found.value_or(spec.shape.max_positions);
}

absl::Status ReadLlama3(const JsonFields& config, const RopeObject& rope, const std::string& path,
                        ModelSpec* spec) {
  RopeScaling& scaling = spec->rope_scaling;
  NG_ASSIGN_OR_RETURN(scaling.low_freq_factor, rope.fields->Number("low_freq_factor", kTurns));
  NG_ASSIGN_OR_RETURN(scaling.high_freq_factor, rope.fields->Number("high_freq_factor", kTurns));
  NG_ASSIGN_OR_RETURN(scaling.original_positions,
                      ReadOriginalPositions(config, *rope.fields, *spec));
  if (scaling.high_freq_factor > scaling.low_freq_factor) return absl::OkStatus();
  return ModelFileError(
      absl::StrCat(path, ": key \"", rope.key, ".high_freq_factor\" = ", scaling.high_freq_factor,
                   ", must be above low_freq_factor = ", scaling.low_freq_factor));
}

// Every dimension of a head turns, or the model cannot run.
absl::Status RequireWholeHeads(const JsonFields& fields, const std::string& where) {
  NG_ASSIGN_OR_RETURN(const std::optional<double> part,
                      fields.OptionalNumber("partial_rotary_factor", {0.0, 1.0}));
  if (part.value_or(1.0) == 1.0) return absl::OkStatus();
  return ModelFileError(
      absl::StrCat(where, "partial_rotary_factor\" = ", *part, ", can run only with 1"));
}

// What a type of transformers is here. A proportional one is linear where all of a head turns; a
// dynamic one changes nothing within max_position_embeddings, and nothing runs beyond.
constexpr struct {
  std::string_view type;
  RopeScalingKind kind;
} kTypes[] = {{"default", RopeScalingKind::kNone},
              {"linear", RopeScalingKind::kLinear},
              {"proportional", RopeScalingKind::kLinear},
              {"dynamic", RopeScalingKind::kNone},
              {"llama3", RopeScalingKind::kLlama3}};

absl::Status ReadScaling(const JsonFields& config, const RopeObject& rope, const std::string& path,
                         ModelSpec* spec) {
  const std::string where = absl::StrCat(path, ": key \"");
  // The newer name goes before the older one, whatever that says.
  const bool has_newer = rope.fields->Find("rope_type") != nullptr;
  const bool has_older = rope.fields->Find("type") != nullptr;
  const char* key = has_newer || !has_older ? "rope_type" : "type";
  NG_ASSIGN_OR_RETURN(const std::optional<std::string> found, rope.fields->OptionalText(key));
  const std::string type = found.value_or("default");
  const auto* const row =
      std::ranges::find(kTypes, type, [](const auto& known) { return known.type; });
  if (row == std::end(kTypes)) {
    return ModelFileError(absl::StrCat(where, rope.key, ".", key, "\" = ", JsonExcerpt(type),
                                       ", must be one of: default, linear, proportional, dynamic, "
                                       "llama3"));
  }
  if (type == "default") return absl::OkStatus();  // nobody reads a factor then
  NG_RETURN_IF_ERROR(RequireWholeHeads(*rope.fields, absl::StrCat(where, rope.key, ".")));
  NG_RETURN_IF_ERROR(RequireWholeHeads(config, where));
  if (type == "proportional" && !rope.fields->Has("factor")) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(const double factor, rope.fields->Number("factor", kFactor));
  if (row->kind == RopeScalingKind::kNone) return absl::OkStatus();
  spec->rope_scaling.kind = row->kind;
  spec->rope_scaling.factor = factor;
  return row->kind == RopeScalingKind::kLlama3 ? ReadLlama3(config, rope, path, spec)
                                               : absl::OkStatus();
}

// The frequency of Llama 3.1 (Grattafiori et al. 2024).
double Llama3Frequency(double frequency, const RopeScaling& scaling) {
  const double turns =
      static_cast<double>(scaling.original_positions) * frequency / (2.0 * std::numbers::pi);
  if (turns > scaling.high_freq_factor) return frequency;
  const double slow = frequency / scaling.factor;
  if (turns < scaling.low_freq_factor) return slow;
  const double part =
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0 - part) * slow + part * frequency;
}

}  // namespace

absl::Status ReadRope(const JsonFields& config, const std::string& path, double absent_theta,
                      ModelSpec* spec) {
  NG_ASSIGN_OR_RETURN(const RopeObject rope, FindRope(config));
  std::optional<double> theta;
  if (rope.fields) {
    NG_ASSIGN_OR_RETURN(theta, rope.fields->OptionalNumber("rope_theta", kTheta));
    NG_RETURN_IF_ERROR(ReadScaling(config, rope, path, spec));
  }
  if (!theta) {  // else nobody reads the one beside the object
    NG_ASSIGN_OR_RETURN(theta, config.OptionalNumber("rope_theta", kTheta));
  }
  spec->rope_theta = theta.value_or(absent_theta);
  return absl::OkStatus();
}

std::vector<double> RopeFrequencies(const ModelSpec& spec) {
  const int half = spec.shape.head_dim / 2;
  std::vector<double> frequencies(static_cast<size_t>(half));
  for (int i = 0; i < half; ++i) {
    const double exponent = -static_cast<double>(i) / static_cast<double>(half);
    double& frequency = frequencies[static_cast<size_t>(i)];
    frequency = std::pow(spec.rope_theta, exponent);
    switch (spec.rope_scaling.kind) {
      case RopeScalingKind::kNone:
        break;
      case RopeScalingKind::kLinear:
        frequency /= spec.rope_scaling.factor;
        break;
      case RopeScalingKind::kLlama3:
        frequency = Llama3Frequency(frequency, spec.rope_scaling);
        break;
    }
  }
  return frequencies;
}

}  // namespace ng
