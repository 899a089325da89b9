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
  return found.value_or(context.max_positions);
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

absl::Status ReadScaling(const RopeSource& source, const RopeObject& rope, RopeScaling& scaling) {
  const auto& [config, path, context] = source;
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
  scaling.kind = row->kind;
  scaling.factor = factor;
  return row->kind == RopeScalingKind::kLlama3 ? ReadLlama3(source, rope, scaling)
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

absl::StatusOr<RopeSpec> ReadRope(const JsonFields& config, const std::string& path,
                                  const RopeContext& context) {
  NG_ASSIGN_OR_RETURN(const RopeObject rope, FindRope(config));
  RopeSpec spec = {.n_dims = context.head_dim, .pairing = context.pairing};
  std::optional<double> theta;
  if (rope.fields) {
    NG_ASSIGN_OR_RETURN(theta, rope.fields->OptionalNumber("rope_theta", kTheta));
    NG_RETURN_IF_ERROR(ReadScaling({config, path, context}, rope, spec.scaling));
  }
  if (!theta) {  // else nobody reads the one beside the object
    NG_ASSIGN_OR_RETURN(theta, config.OptionalNumber("rope_theta", kTheta));
  }
  spec.theta = theta.value_or(context.theta);
  return spec;
}

std::vector<double> RopeFrequencies(const RopeSpec& spec) {
  const int64_t half = spec.n_dims / 2;
  std::vector<double> frequencies(static_cast<size_t>(half));
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = -static_cast<double>(i) / static_cast<double>(half);
    double& frequency = frequencies[static_cast<size_t>(i)];
    frequency = std::pow(spec.theta, exponent);
    switch (spec.scaling.kind) {
      case RopeScalingKind::kNone:
        break;
      case RopeScalingKind::kLinear:
        frequency /= spec.scaling.factor;
        break;
      case RopeScalingKind::kLlama3:
        frequency = Llama3Frequency(frequency, spec.scaling);
        break;
    }
  }
  return frequencies;
}

RopeTable::RopeTable(const RopeSpec& spec, std::span<const float> factors, int64_t max_positions,
                     int64_t reserved)
    : half_(spec.n_dims / 2), max_positions_(max_positions), frequencies_(RopeFrequencies(spec)) {
  for (size_t i = 0; i < factors.size(); ++i) {
    frequencies_[i] /= static_cast<double>(factors[i]);
  }
  if (max_positions > 0) reserved = std::min(reserved, max_positions);
  values_.reserve(static_cast<size_t>(reserved * 2 * half_));
}

void RopeTable::Grow(int64_t n_positions) {
  const auto have = static_cast<int64_t>(values_.size()) / (2 * half_);
  if (have >= n_positions) return;
  // Doubling, so that a long decode does not come back here for every token, but not beyond what
  // is reserved.
  const auto room = static_cast<int64_t>(values_.capacity()) / (2 * half_);
  int64_t wanted = std::max(n_positions, std::min(2 * have, room));
  if (max_positions_ > 0) wanted = std::min(wanted, max_positions_);
  values_.resize(static_cast<size_t>(wanted * half_ * 2));
  for (int64_t i = 0; i < half_; ++i) {
    const double frequency = frequencies_[static_cast<size_t>(i)];
    for (int64_t pos = have; pos < wanted; ++pos) {
      const double angle = static_cast<double>(pos) * frequency;
      values_[static_cast<size_t>(2 * pos * half_ + i)] = static_cast<float>(std::cos(angle));
      values_[static_cast<size_t>((2 * pos + 1) * half_ + i)] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace ng
