#include "core/model/keys/state_configs.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/model/keys/config_fields.h"
#include "core/model/spec/limits.h"

namespace ng {
namespace {

using Layers = std::vector<Operation>;

struct LayerName {
  std::string_view name;
  Operation operation;
};
constexpr LayerName kLfm2Names[] = {{"conv", Operation::kState},
                                    {"full_attention", Operation::kAttention}};
// As the classes spell them, and as older files do.
constexpr LayerName kNames[] = {{"linear_attention", Operation::kState},
                                {"full_attention", Operation::kAttention},
                                {"mamba", Operation::kState},
                                {"attention", Operation::kAttention}};
constexpr LayerName kNemotronNames[] = {
    {"mamba", Operation::kState},         {"linear_attention", Operation::kState},
    {"attention", Operation::kAttention}, {"full_attention", Operation::kAttention},
    {"mlp", Operation::kFeedForward},     {"moe", Operation::kMixture}};
constexpr LayerName kNemotronLetters[] = {{"M", Operation::kState},
                                          {"*", Operation::kAttention},
                                          {"-", Operation::kFeedForward},
                                          {"E", Operation::kMixture}};

absl::StatusOr<Operation> OperationNamed(std::string_view name, std::span<const LayerName> names,
                                         const std::string& where) {
  std::string allowed;
  for (const LayerName& known : names) {
    if (known.name == name) return known.operation;
    absl::StrAppend(&allowed, allowed.empty() ? "" : ", ", JsonExcerpt(std::string(known.name)));
  }
  return ModelFileError(
      absl::StrCat(where, " = ", JsonExcerpt(std::string(name)), ", must be one of ", allowed));
}

// What one of the keys lists, the first that is there; nothing where none is.
absl::StatusOr<std::optional<Layers>> ReadListed(const JsonFields& config, const std::string& path,
                                                 std::span<const char* const> keys,
                                                 std::span<const LayerName> names) {
  for (const char* const key : keys) {
    NG_ASSIGN_OR_RETURN(const auto listed, config.OptionalTexts(key));
    if (!listed) continue;
    Layers layers;
    for (const std::string& name : *listed) {
      NG_ASSIGN_OR_RETURN(
          const Operation operation,
          OperationNamed(name, names,
                         absl::StrCat(path, ": key \"", key, "[", layers.size(), "]\"")));
      layers.push_back(operation);
    }
    return layers;
  }
  return std::nullopt;
}

absl::StatusOr<Layers> Checked(const std::string& path, const Layers& layers, int64_t n_layers) {
  if (std::ssize(layers) != n_layers) {
    return ModelFileError(absl::StrCat(path, ": key \"layer_types\" lists ", layers.size(),
                                       " layers, num_hidden_layers is ", n_layers));
  }
  if (n_layers > kCount.max) {
    return ModelFileError(
        absl::StrCat(path, ": lists ", n_layers, " layers, may list ", kCount.max));
  }
  if (std::ranges::count(layers, Operation::kAttention) > 0) return layers;
  return ModelFileError(path + ": no layer has attention, at least one must");
}

constexpr const char* kTypesKey[] = {"layer_types"};
// The other name of a key goes before it.
constexpr const char* kGraniteKeys[] = {"layers_block_type", "layer_types"};
constexpr const char* kNemotronKeys[] = {"layer_types", "layers_block_type"};

absl::StatusOr<Layers> ReadLfm2Layers(const JsonFields& config, const std::string& path,
                                      int64_t n_layers) {
  NG_ASSIGN_OR_RETURN(const auto listed, ReadListed(config, path, kTypesKey, kLfm2Names));
  if (listed) return Checked(path, *listed, n_layers);
  NG_ASSIGN_OR_RETURN(const auto full, config.OptionalInts("full_attn_idxs", {0, n_layers - 1}));
  Layers layers(static_cast<size_t>(n_layers), full ? Operation::kState : Operation::kAttention);
  for (const int64_t layer : full.value_or(std::vector<int64_t>())) {
    layers[static_cast<size_t>(layer)] = Operation::kAttention;
  }
  return Checked(path, layers, n_layers);
}

absl::StatusOr<Layers> ReadQwenNextLayers(const JsonFields& config, const std::string& path,
                                          int64_t n_layers) {
  NG_ASSIGN_OR_RETURN(const auto listed, ReadListed(config, path, kTypesKey, kNames));
  if (listed) return Checked(path, *listed, n_layers);
  NG_ASSIGN_OR_RETURN(const int64_t interval, IntOr(config, "full_attention_interval", kCount, 4));
  Layers layers;
  for (int64_t i = 1; i <= n_layers; ++i) {
    layers.push_back(i % interval == 0 ? Operation::kAttention : Operation::kState);
  }
  return Checked(path, layers, n_layers);
}

absl::StatusOr<Layers> ReadGraniteLayers(const JsonFields& config, const std::string& path,
                                         int64_t n_layers) {
  NG_ASSIGN_OR_RETURN(const auto listed, ReadListed(config, path, kGraniteKeys, kNames));
  const Layers all(static_cast<size_t>(n_layers), Operation::kState);
  return Checked(path, listed.value_or(all), n_layers);
}

// The list says how many layers there are.
absl::StatusOr<Layers> ReadNemotronLayers(const JsonFields& config, const std::string& path,
                                          int64_t /*n_layers*/) {
  constexpr const char* kPattern = "hybrid_override_pattern";
  NG_ASSIGN_OR_RETURN(const auto listed, ReadListed(config, path, kNemotronKeys, kNemotronNames));
  if (listed) return Checked(path, *listed, std::ssize(*listed));
  if (!config.Has(kPattern)) {
    return Layers{Operation::kState, Operation::kMixture, Operation::kAttention,
                  Operation::kFeedForward};
  }
  Layers layers;
  NG_ASSIGN_OR_RETURN(const std::string pattern, config.Text(kPattern));
  for (const char& letter : pattern) {
    NG_ASSIGN_OR_RETURN(
        const Operation operation,
        OperationNamed({&letter, 1}, kNemotronLetters,
                       absl::StrCat(path, ": key \"", kPattern, "\", letter ", layers.size())));
    layers.push_back(operation);
  }
  return Checked(path, layers, std::ssize(layers));
}

absl::StatusOr<StateSpec> ReadShortConv(const JsonFields& config, const std::string& /*path*/,
                                        int64_t width, float /*eps*/) {
  StateSpec state = {.kind = StateKind::kShortConv, .conv_width = width};
  NG_ASSIGN_OR_RETURN(state.taps, IntOr(config, "conv_L_cache", {1, kMaxTaps}, 3));
  NG_ASSIGN_OR_RETURN(state.conv_bias, BoolOr(config, "conv_bias", false));
  state.in_bias = state.out_bias = state.conv_bias;
  return state;
}

absl::Status CheckGroups(const std::string& path, const StateSpec& state, const char* heads,
                         const char* groups) {
  if (state.n_heads % state.n_groups == 0) return absl::OkStatus();
  return ModelFileError(absl::StrCat(path, ": key \"", heads, "\" = ", state.n_heads,
                                     ", must be a multiple of ", groups, " = ", state.n_groups));
}

absl::StatusOr<StateSpec> ReadDeltaRule(const JsonFields& config, const std::string& path,
                                        int64_t /*width*/, float eps) {
  StateSpec state = {.kind = StateKind::kDeltaRule,
                     .norm = {.kind = NormKind::kRmsNorm, .eps = eps}};
  NG_ASSIGN_OR_RETURN(state.taps, IntOr(config, "linear_conv_kernel_dim", {1, kMaxTaps}, 4));
  NG_ASSIGN_OR_RETURN(const int64_t n_keys, IntOr(config, "linear_num_key_heads", kCount, 16));
  NG_ASSIGN_OR_RETURN(const int64_t n_values, IntOr(config, "linear_num_value_heads", kCount, 32));
  NG_ASSIGN_OR_RETURN(state.key_dim, IntOr(config, "linear_key_head_dim", kCount, 128));
  NG_ASSIGN_OR_RETURN(state.value_dim, IntOr(config, "linear_value_head_dim", kCount, 128));
  state.n_groups = static_cast<int>(n_keys);
  state.n_heads = static_cast<int>(n_values);
  NG_RETURN_IF_ERROR(CheckGroups(path, state, "linear_num_value_heads", "linear_num_key_heads"));
  state.conv_width = 2 * state.key_width() + state.out_width();
  return state;
}

// What the keys of Mamba 2 are called in a family, and what absent ones mean.
struct MambaKeys {
  SizeKey n_heads;
  SizeKey n_groups;
  int64_t n_groups_absent;
  SizeKey key_dim;
  int64_t key_dim_absent;
  SizeKey taps;
  SwitchKey conv_bias;
  const char* bias;
};
constexpr MambaKeys kGraniteMamba = {.n_heads = {"mamba_n_heads"},
                                     .n_groups = {"mamba_n_groups"},
                                     .n_groups_absent = 1,
                                     .key_dim = {"mamba_d_state"},
                                     .key_dim_absent = 256,
                                     .taps = {"mamba_d_conv"},
                                     .conv_bias = {"mamba_conv_bias", true},
                                     .bias = "mamba_proj_bias"};
constexpr MambaKeys kNemotronMamba = {.n_heads = {"mamba_num_heads"},
                                      .n_groups = {"n_groups", "mamba_n_groups"},
                                      .n_groups_absent = 8,
                                      .key_dim = {"ssm_state_size"},
                                      .key_dim_absent = 128,
                                      .taps = {"conv_kernel", "mamba_d_conv"},
                                      .conv_bias = {"mamba_conv_bias", true, "use_conv_bias"},
                                      .bias = "use_bias"};

// All but the size of a head and the bounds of the steps.
absl::StatusOr<StateSpec> ReadMamba(const JsonFields& config, const std::string& path,
                                    const MambaKeys& keys, float eps) {
  StateSpec state = {.kind = StateKind::kMamba2,
                     .norm = {.kind = NormKind::kRmsNorm, .eps = eps},
                     .largest_step = std::numeric_limits<float>::infinity()};
  NG_ASSIGN_OR_RETURN(state.taps, keys.taps.Read(config, {1, kMaxTaps}, 4));
  NG_ASSIGN_OR_RETURN(const int64_t n_heads, keys.n_heads.Read(config, kCount, 128));
  NG_ASSIGN_OR_RETURN(const int64_t n_groups,
                      keys.n_groups.Read(config, kCount, keys.n_groups_absent));
  NG_ASSIGN_OR_RETURN(state.key_dim, keys.key_dim.Read(config, kCount, keys.key_dim_absent));
  NG_ASSIGN_OR_RETURN(state.conv_bias, ReadSwitch(config, keys.conv_bias));
  NG_ASSIGN_OR_RETURN(state.in_bias, BoolOr(config, keys.bias, false));
  state.out_bias = state.in_bias;
  state.n_heads = static_cast<int>(n_heads);
  state.n_groups = static_cast<int>(n_groups);
  NG_RETURN_IF_ERROR(CheckGroups(path, state, keys.n_heads.key, keys.n_groups.key));
  return state;
}

void SetHeads(int64_t value_dim, StateSpec* state) {
  state->value_dim = value_dim;
  state->conv_width = state->out_width() + 2 * state->key_width();
}

// JSON has no infinity: the object is what transformers 5 writes. -1: neither that nor a number.
float NumberOrInfinity(const nlohmann::json& value) {
  if (value.is_number()) return value.get<float>();
  const bool named = value.is_object() && value.size() == 1 && value.contains("__float__");
  const bool infinite = named && value["__float__"] == "Infinity";
  return infinite ? std::numeric_limits<float>::infinity() : -1.0F;
}

absl::StatusOr<StateSpec> ReadGraniteState(const JsonFields& config, const std::string& path,
                                           int64_t width, float eps) {
  NG_ASSIGN_OR_RETURN(StateSpec state, ReadMamba(config, path, kGraniteMamba, eps));
  NG_ASSIGN_OR_RETURN(const int64_t expand, IntOr(config, "mamba_expand", kCount, 2));
  const nlohmann::json* const dim = config.Find("mamba_d_head");
  int64_t value_dim = expand * width / state.n_heads;
  if (dim != nullptr && *dim != "auto") {
    NG_ASSIGN_OR_RETURN(value_dim, config.Int("mamba_d_head", kCount));
  }
  if (value_dim * state.n_heads != expand * width) {
    return ModelFileError(absl::StrCat(path, ": key \"mamba_n_heads\" = ", state.n_heads,
                                       ", times mamba_d_head = ", value_dim,
                                       " must be mamba_expand * hidden_size = ", expand * width));
  }
  SetHeads(value_dim, &state);
  const nlohmann::json* const limit = config.Find("time_step_limit");
  if (limit == nullptr) return state;
  if (limit->is_array() && limit->size() == 2) {
    state.least_step = NumberOrInfinity((*limit)[0]);
    state.largest_step = NumberOrInfinity((*limit)[1]);
    if (state.least_step >= 0.0F && state.largest_step >= state.least_step) return state;
  }
  return ModelFileError(absl::StrCat(path, ": key \"time_step_limit\" = ", JsonExcerpt(*limit),
                                     ", must be two numbers from 0 on, the larger one last"));
}

absl::StatusOr<StateSpec> ReadNemotronState(const JsonFields& config, const std::string& path,
                                            int64_t /*width*/, float eps) {
  NG_ASSIGN_OR_RETURN(StateSpec state, ReadMamba(config, path, kNemotronMamba, eps));
  NG_ASSIGN_OR_RETURN(const int64_t value_dim, IntOr(config, "mamba_head_dim", kCount, 64));
  SetHeads(value_dim, &state);
  NG_RETURN_IF_ERROR(ReadActivation(config, path, "mamba_hidden_act", kSiluNames).status());
  // The class goes by the least step alone.
  const char* const key = config.Has("mamba_dt_min") ? "mamba_dt_min" : "time_step_min";
  NG_ASSIGN_OR_RETURN(const std::optional<double> least, config.OptionalNumber(key, {0.0, 1e6}));
  state.least_step = static_cast<float>(least.value_or(0.001));
  return state;
}

}  // namespace

const HybridRow kLfm2Hybrid = {ReadLfm2Layers, ReadShortConv};
const HybridRow kQwenNextHybrid = {ReadQwenNextLayers, ReadDeltaRule};
const HybridRow kGraniteHybrid = {ReadGraniteLayers, ReadGraniteState};
const HybridRow kNemotronHybrid = {ReadNemotronLayers, ReadNemotronState, /*one_block=*/true};

}  // namespace ng
