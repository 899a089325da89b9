#include "core/model/rope.h"

#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/model/limits.h"

namespace ng {
namespace {

constexpr Range<double> kFactor = {1.0, 1e6};
constexpr Range<double> kTurns = {1e-6, 1e6};

absl::StatusOr<RopeScaling> ReadScaling(const JsonFields& rope, const std::string& where) {
  const char* type_key = rope.Has("type") && !rope.Has("rope_type") ? "type" : "rope_type";
  NG_ASSIGN_OR_RETURN(const std::string type, rope.Text(type_key));
  RopeScaling scaling;
  if (type == "default") return scaling;
  if (type != "linear" && type != "llama3") {
    return ModelFileError(absl::StrCat(where, ".", type_key, "\" = ", JsonExcerpt(type),
                                       ", must be one of: default, linear, llama3"));
  }
  scaling.kind = type == "linear" ? RopeScalingKind::kLinear : RopeScalingKind::kLlama3;
  NG_ASSIGN_OR_RETURN(scaling.factor, rope.Number("factor", kFactor));
  if (scaling.kind == RopeScalingKind::kLinear) return scaling;
  NG_ASSIGN_OR_RETURN(scaling.low_freq_factor, rope.Number("low_freq_factor", kTurns));
  NG_ASSIGN_OR_RETURN(scaling.high_freq_factor, rope.Number("high_freq_factor", kTurns));
  NG_ASSIGN_OR_RETURN(scaling.original_positions,
                      rope.Int("original_max_position_embeddings", kPositions));
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    return ModelFileError(
        absl::StrCat(where, ".high_freq_factor\" = ", scaling.high_freq_factor,
                     ", must be above low_freq_factor = ", scaling.low_freq_factor));
  }
  return scaling;
}

// Every dimension of a head turns, or the model cannot run.
absl::Status RequireWholeHeads(const JsonFields& fields, const std::string& where) {
  NG_ASSIGN_OR_RETURN(const std::optional<double> part,
                      fields.OptionalNumber("partial_rotary_factor", {0.0, 1.0}));
  if (part.value_or(1.0) == 1.0) return absl::OkStatus();
  return ModelFileError(
      absl::StrCat(where, "partial_rotary_factor\" = ", *part, ", can run only with 1"));
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

absl::Status ReadRope(const JsonFields& config, const std::string& path, ModelSpec* spec) {
  NG_RETURN_IF_ERROR(RequireWholeHeads(config, path + ": key \""));
  std::optional<RopeScaling> scaling;
  std::optional<double> theta;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    NG_ASSIGN_OR_RETURN(const std::optional<JsonFields> rope, config.OptionalObject(key));
    if (!rope) continue;
    const std::string where = absl::StrCat(path, ": key \"", key);
    NG_RETURN_IF_ERROR(RequireWholeHeads(*rope, where + "."));
    NG_ASSIGN_OR_RETURN(const RopeScaling found, ReadScaling(*rope, where));
    if (scaling && *scaling != found) {
      return ModelFileError(where + "\" differs from \"rope_parameters\"; one of them is enough");
    }
    scaling = found;
    NG_ASSIGN_OR_RETURN(const std::optional<double> own,
                        rope->OptionalNumber("rope_theta", kTheta));
    if (own && theta && *own != *theta) {
      return ModelFileError(absl::StrCat(where, ".rope_theta\" = ", *own,
                                         " differs from rope_parameters.rope_theta = ", *theta));
    }
    if (own) theta = own;
  }
  if (!theta) {
    NG_ASSIGN_OR_RETURN(theta, config.OptionalNumber("rope_theta", kTheta));
  }
  spec->rope_theta = theta.value_or(10000.0);  // as the format has it
  spec->rope_scaling = scaling.value_or(RopeScaling());
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
