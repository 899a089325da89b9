#include "core/model/family_configs.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/model/limits.h"
#include "core/model/rope.h"

namespace ng {
namespace {

// Fields with what an absent one means. As in the classes of transformers, which a config.json need
// not repeat; null is no number there.
absl::StatusOr<int64_t> IntOr(const JsonFields& config, std::string_view key, Range<int64_t> range,
                              int64_t absent) {
  if (config.IsNull(key)) return config.Int(key, range);  // the error
  NG_ASSIGN_OR_RETURN(const std::optional<int64_t> found, config.OptionalInt(key, range));
  return found.value_or(absent);
}

absl::StatusOr<bool> BoolOr(const JsonFields& config, std::string_view key, bool absent) {
  NG_ASSIGN_OR_RETURN(const std::optional<bool> found, config.OptionalBool(key));
  return found.value_or(absent);
}

// One of those that run, or what an absent key means.
struct ActivationName {
  std::string_view name;
  Activation activation;
};
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

// A switch that the decoder has only one position of.
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

}  // namespace

absl::StatusOr<ModelSpec> ReadNielsSpec(const JsonFields& config, const std::string& path) {
  ModelSpec spec;
  NG_ASSIGN_OR_RETURN(spec.shape.vocab_size, config.Int("V", kSize));
  NG_ASSIGN_OR_RETURN(spec.shape.max_positions, config.Int("T", kPositions));
  NG_ASSIGN_OR_RETURN(spec.width, config.Int("C", kSize));
  NG_ASSIGN_OR_RETURN(const int64_t n_layers, config.Int("L", kCount));
  NG_ASSIGN_OR_RETURN(const int64_t n_heads, config.Int("H", {1, spec.width}));
  NG_ASSIGN_OR_RETURN(spec.ffn_width, config.Int("d_ff", kSize));
  NG_ASSIGN_OR_RETURN(spec.rope_theta, config.Number("rope_theta", {1.0, 1e12}));
  spec.norm_eps = 1e-5F;
  spec.rope_pairing = RopePairing::kInterleaved;
  spec.mlp_bias = true;
  spec.shape.n_layers = static_cast<int>(n_layers);
  spec.shape.n_heads = spec.shape.n_kv_heads = static_cast<int>(n_heads);
  if (spec.width % n_heads != 0 || (spec.width / n_heads) % 2 != 0) {
    return ModelFileError(absl::StrCat(path, ": C = ", spec.width, " and H = ", n_heads,
                                       ": C must be a multiple of H, and C / H even for RoPE"));
  }
  spec.shape.head_dim = static_cast<int>(spec.width / n_heads);
  return spec;
}

namespace {

// What every class of transformers may be told and the decoder cannot do. is_causal is as true as
// Python takes it, and null is false.
absl::Status RequirePlain(const JsonFields& config, const std::string& path) {
  for (const char* key : {"quantization_config", "per_layer_config"}) {
    const nlohmann::json* value = config.Find(key);
    if (value == nullptr || SaysNothing(*value)) continue;
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

// What an absent key means to the families that are made like llama, by their classes in
// transformers. All have 32 layers and 32 heads.
struct LlamaDefaults {
  int64_t vocab_size;
  int64_t width = 4096;
  int64_t ffn_width;
  int64_t max_positions;
  int64_t n_kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;    // 0: the width shared out
};
constexpr LlamaDefaults kLlama = {.vocab_size = 32000, .ffn_width = 11008, .max_positions = 2048};
constexpr LlamaDefaults kMistral = {
    .vocab_size = 32000, .ffn_width = 14336, .max_positions = 131072, .n_kv_heads = 8};
constexpr LlamaDefaults kQwen2 = {
    .vocab_size = 151936, .ffn_width = 22016, .max_positions = 32768, .n_kv_heads = 32};
constexpr LlamaDefaults kQwen3 = {.vocab_size = 151936,
                                  .ffn_width = 22016,
                                  .max_positions = 32768,
                                  .n_kv_heads = 32,
                                  .head_dim = 128};

absl::Status ReadHeads(const JsonFields& config, const std::string& path,
                       const LlamaDefaults& defaults, ModelSpec* spec) {
  constexpr const char* kKvHeads = "num_key_value_heads";
  NG_ASSIGN_OR_RETURN(const int64_t n_heads, IntOr(config, "num_attention_heads", kCount, 32));
  // Null is as many as heads in every family, and shared out in those that share it out.
  int64_t n_kv_heads = n_heads;
  if (!config.IsNull(kKvHeads)) {
    const int64_t absent = defaults.n_kv_heads == 0 ? n_heads : defaults.n_kv_heads;
    NG_ASSIGN_OR_RETURN(n_kv_heads, IntOr(config, kKvHeads, kCount, absent));
  }
  int64_t head_dim = 0;
  if (defaults.head_dim != 0 || !config.IsNull("head_dim")) {
    NG_ASSIGN_OR_RETURN(head_dim, IntOr(config, "head_dim", kCount, defaults.head_dim));
  }
  if (head_dim == 0 && spec->width % n_heads != 0) {
    return ModelFileError(absl::StrCat(path, ": hidden_size = ", spec->width,
                                       " must be a multiple of num_attention_heads = ", n_heads,
                                       " where head_dim is not set"));
  }
  if (head_dim == 0) head_dim = spec->width / n_heads;
  if (head_dim % 2 != 0) {
    return ModelFileError(absl::StrCat(path, ": head_dim = ", head_dim, " must be even for RoPE"));
  }
  if (n_heads % n_kv_heads != 0) {
    return ModelFileError(
        absl::StrCat(path, ": num_attention_heads = ", n_heads,
                     " must be a multiple of num_key_value_heads = ", n_kv_heads));
  }
  spec->shape.n_heads = static_cast<int>(n_heads);
  spec->shape.n_kv_heads = static_cast<int>(n_kv_heads);
  spec->shape.head_dim = static_cast<int>(head_dim);
  return absl::OkStatus();
}

// What all of them have.
absl::StatusOr<ModelSpec> ReadLlamaLike(const JsonFields& config, const std::string& path,
                                        const LlamaDefaults& defaults) {
  constexpr ActivationName kActivations[] = {{"silu", Activation::kSwiGlu},
                                             {"swish", Activation::kSwiGlu}};
  NG_RETURN_IF_ERROR(RequirePlain(config, path));
  ModelSpec spec;
  NG_ASSIGN_OR_RETURN(spec.shape.vocab_size,
                      IntOr(config, "vocab_size", kSize, defaults.vocab_size));
  NG_ASSIGN_OR_RETURN(spec.shape.max_positions,
                      IntOr(config, "max_position_embeddings", kPositions, defaults.max_positions));
  NG_ASSIGN_OR_RETURN(spec.width, IntOr(config, "hidden_size", kSize, defaults.width));
  NG_ASSIGN_OR_RETURN(spec.ffn_width,
                      IntOr(config, "intermediate_size", kSize, defaults.ffn_width));
  NG_ASSIGN_OR_RETURN(const int64_t n_layers, IntOr(config, "num_hidden_layers", kCount, 32));
  spec.shape.n_layers = static_cast<int>(n_layers);
  NG_RETURN_IF_ERROR(ReadHeads(config, path, defaults, &spec));
  NG_ASSIGN_OR_RETURN(spec.norm_eps, EpsOr(config, "rms_norm_eps", 1e-6));
  spec.rope_pairing = RopePairing::kHalfSplit;
  NG_RETURN_IF_ERROR(ReadRope(config, path, &spec));
  NG_ASSIGN_OR_RETURN(spec.activation, ReadActivation(config, path, "hidden_act", kActivations));
  NG_ASSIGN_OR_RETURN(spec.tied_head, BoolOr(config, "tie_word_embeddings", false));
  return spec;
}

}  // namespace

absl::StatusOr<ModelSpec> ReadLlamaSpec(const JsonFields& config, const std::string& path) {
  NG_ASSIGN_OR_RETURN(ModelSpec spec, ReadLlamaLike(config, path, kLlama));
  NG_ASSIGN_OR_RETURN(spec.qkv_bias, BoolOr(config, "attention_bias", false));
  spec.attn_out_bias = spec.qkv_bias;
  NG_ASSIGN_OR_RETURN(spec.mlp_bias, BoolOr(config, "mlp_bias", false));
  return spec;
}

absl::StatusOr<ModelSpec> ReadMistralSpec(const JsonFields& config, const std::string& path) {
  constexpr const char* kWindow = "sliding_window";
  NG_ASSIGN_OR_RETURN(ModelSpec spec, ReadLlamaLike(config, path, kMistral));
  if (config.IsNull(kWindow)) return spec;
  NG_ASSIGN_OR_RETURN(spec.window, IntOr(config, kWindow, kPositions, 4096));
  return spec;
}

namespace {

// Which layers attend to everything, the others to a window only, where the config lists what each
// one does. Errors: one does anything else, or so where the config uses no window.
absl::StatusOr<std::optional<std::vector<bool>>> ReadLayerTypes(const JsonFields& config,
                                                                const std::string& path,
                                                                bool window_used,
                                                                const ModelSpec& spec) {
  constexpr const char* kKey = "layer_types";
  NG_ASSIGN_OR_RETURN(const auto types, config.OptionalTexts(kKey));
  if (!types) return std::nullopt;
  if (std::ssize(*types) != spec.shape.n_layers) {
    return ModelFileError(absl::StrCat(path, ": key \"", kKey, "\" lists ", types->size(),
                                       " layers, num_hidden_layers is ", spec.shape.n_layers));
  }
  std::vector<bool> full;
  for (size_t i = 0; i < types->size(); ++i) {
    const std::string& type = (*types)[i];
    const bool has_window = window_used && type == "sliding_attention";
    full.push_back(!has_window);
    // "attention" is its older name.
    if (has_window || type == "full_attention" || type == "attention") continue;
    return ModelFileError(absl::StrCat(
        path, ": key \"", kKey, "[", i, "]\" = ", JsonExcerpt(type), ", must be \"full_attention\"",
        window_used ? " or \"sliding_attention\"" : " where use_sliding_window is not true"));
  }
  return full;
}

// Of the layers that are listed so, or else those from max_window_layers on.
absl::Status ReadQwenWindow(const JsonFields& config, const std::string& path, ModelSpec* spec) {
  NG_ASSIGN_OR_RETURN(const std::optional<bool> used, config.OptionalBool("use_sliding_window"));
  NG_ASSIGN_OR_RETURN(std::optional<std::vector<bool>> full,
                      ReadLayerTypes(config, path, used.value_or(false), *spec));
  if (!used.value_or(false)) return absl::OkStatus();
  const int n_layers = spec->shape.n_layers;
  if (!full) {
    NG_ASSIGN_OR_RETURN(const int64_t n_full,
                        IntOr(config, "max_window_layers", {0, kPositions.max}, 28));
    full.emplace(static_cast<size_t>(n_layers), false);
    std::fill_n(full->begin(), std::min<int64_t>(n_full, n_layers), true);
  }
  const auto n_full = std::ranges::count(*full, true);
  if (n_full == n_layers || config.IsNull("sliding_window")) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(spec->window, IntOr(config, "sliding_window", kPositions, 4096));
  if (n_full > 0) spec->full_layers = *std::move(full);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelSpec> ReadQwen2Spec(const JsonFields& config, const std::string& path) {
  NG_ASSIGN_OR_RETURN(ModelSpec spec, ReadLlamaLike(config, path, kQwen2));
  NG_RETURN_IF_ERROR(ReadQwenWindow(config, path, &spec));
  spec.qkv_bias = true;
  return spec;
}

absl::StatusOr<ModelSpec> ReadQwen3Spec(const JsonFields& config, const std::string& path) {
  NG_ASSIGN_OR_RETURN(ModelSpec spec, ReadLlamaLike(config, path, kQwen3));
  NG_RETURN_IF_ERROR(ReadQwenWindow(config, path, &spec));
  NG_ASSIGN_OR_RETURN(spec.qkv_bias, BoolOr(config, "attention_bias", false));
  spec.attn_out_bias = spec.qkv_bias;
  spec.qk_norm = true;
  return spec;
}

namespace {

// A size by its key, or by another name of it, which goes before; and what it is where neither is
// there, 0: it must be.
struct SizeKey {
  const char* key;
  const char* other_name = "";
  int64_t absent = 0;

  absl::StatusOr<int64_t> Read(const JsonFields& config, Range<int64_t> range) const {
    NG_ASSIGN_OR_RETURN(const std::optional<int64_t> other, config.OptionalInt(other_name, range));
    NG_ASSIGN_OR_RETURN(const std::optional<int64_t> own, config.OptionalInt(key, range));
    if (other || own) return other ? *other : *own;
    if (absent == 0) return config.Int(key, range);  // the error
    return absent;
  }
};

struct GptKeys {
  SizeKey vocab_size, positions, width, layers, heads;
};
constexpr GptKeys kNanoGpt = {{"vocab_size"}, {"block_size"}, {"n_embd"}, {"n_layer"}, {"n_head"}};
// With the names and values of GPT2Config in transformers.
constexpr GptKeys kGpt2 = {{"vocab_size", "", 50257},
                           {"n_positions", "max_position_embeddings", 1024},
                           {"n_embd", "hidden_size", 768},
                           {"n_layer", "num_hidden_layers", 12},
                           {"n_head", "num_attention_heads", 12}};

// What nanoGPT and GPT-2 share: pre-norm LayerNorm, learned positions, as many kv heads as heads.
absl::Status ReadGptShape(const JsonFields& config, const std::string& path, const GptKeys& keys,
                          ModelSpec* spec) {
  NG_ASSIGN_OR_RETURN(spec->shape.vocab_size, keys.vocab_size.Read(config, kSize));
  NG_ASSIGN_OR_RETURN(spec->shape.max_positions, keys.positions.Read(config, kSize));
  NG_ASSIGN_OR_RETURN(spec->width, keys.width.Read(config, kSize));
  NG_ASSIGN_OR_RETURN(const int64_t n_layers, keys.layers.Read(config, kCount));
  NG_ASSIGN_OR_RETURN(const int64_t n_heads, keys.heads.Read(config, kCount));
  if (spec->width % n_heads != 0) {
    return ModelFileError(absl::StrCat(path, ": n_embd = ", spec->width,
                                       " must be a multiple of n_head = ", n_heads));
  }
  spec->shape.n_layers = static_cast<int>(n_layers);
  spec->shape.n_heads = spec->shape.n_kv_heads = static_cast<int>(n_heads);
  spec->shape.head_dim = static_cast<int>(spec->width / n_heads);
  spec->ffn_width = 4 * spec->width;
  spec->norm = NormKind::kLayerNorm;
  spec->position = PositionKind::kLearned;
  return absl::OkStatus();
}

void SetBiases(bool has, ModelSpec* spec) {
  spec->norm_bias = spec->qkv_bias = spec->attn_out_bias = spec->mlp_bias = has;
}

}  // namespace

absl::StatusOr<ModelSpec> ReadNanoGptSpec(const JsonFields& config, const std::string& path) {
  ModelSpec spec;
  NG_RETURN_IF_ERROR(ReadGptShape(config, path, kNanoGpt, &spec));
  NG_ASSIGN_OR_RETURN(const bool bias, config.Bool("bias"));
  SetBiases(bias, &spec);
  spec.norm_eps = 1e-5F;
  spec.activation = Activation::kGeluErf;
  return spec;
}

absl::StatusOr<ModelSpec> ReadGpt2Spec(const JsonFields& config, const std::string& path) {
  constexpr ActivationName kActivations[] = {
      {"gelu_new", Activation::kGeluTanh},         {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"gelu_python_tanh", Activation::kGeluTanh}, {"gelu_fast", Activation::kGeluTanh},
      {"gelu_accurate", Activation::kGeluTanh},    {"gelu", Activation::kGeluErf},
      {"gelu_python", Activation::kGeluErf}};
  NG_RETURN_IF_ERROR(RequirePlain(config, path));
  ModelSpec spec;
  NG_RETURN_IF_ERROR(ReadGptShape(config, path, kGpt2, &spec));
  NG_ASSIGN_OR_RETURN(const std::optional<int64_t> n_inner, config.OptionalInt("n_inner", kSize));
  spec.ffn_width = n_inner.value_or(spec.ffn_width);
  NG_ASSIGN_OR_RETURN(spec.norm_eps, EpsOr(config, "layer_norm_epsilon", 1e-5));
  NG_ASSIGN_OR_RETURN(spec.activation,
                      ReadActivation(config, path, "activation_function", kActivations));
  SetBiases(true, &spec);
  NG_RETURN_IF_ERROR(Require(config, path, "scale_attn_weights", true));
  NG_RETURN_IF_ERROR(Require(config, path, "scale_attn_by_inverse_layer_idx", false));
  NG_RETURN_IF_ERROR(Require(config, path, "add_cross_attention", false));
  NG_ASSIGN_OR_RETURN(spec.tied_head, BoolOr(config, "tie_word_embeddings", true));
  return spec;
}

absl::StatusOr<ModelSpec> ReadPostLnSpec(const JsonFields& config, const std::string& /*path*/) {
  ModelSpec spec;
  NG_ASSIGN_OR_RETURN(const int64_t n_heads, config.Int("num_heads", kCount));
  NG_ASSIGN_OR_RETURN(const double eps, config.Number("eps", kEps));
  spec.shape.n_heads = spec.shape.n_kv_heads = static_cast<int>(n_heads);
  spec.norm = NormKind::kLayerNorm;
  spec.norm_placement = NormPlacement::kPost;
  spec.norm_affine = false;
  spec.norm_eps = static_cast<float>(eps);
  spec.position = PositionKind::kLearned;
  spec.last_without_position = true;
  spec.activation = Activation::kGeluTanh;
  spec.tied_head = false;
  return spec;
}

namespace {

// The shape of a tensor that the model's sizes are taken from.
absl::StatusOr<std::vector<int64_t>> SizesOf(const TensorSource& tensors, std::string_view name,
                                             size_t n_dims) {
  const TensorInfo* tensor = tensors.Find(name);
  const absl::string_view shown(name.data(), name.size());
  if (tensor == nullptr) {
    return ModelFileError(absl::StrCat(tensors.path(), ": missing 1 tensor: ", shown));
  }
  bool fits = tensor->shape.size() == n_dims;
  for (const int64_t extent : tensor->shape) {
    fits = fits && extent >= kSize.min && extent <= kSize.max;
  }
  if (fits) return tensor->shape;
  return ModelFileError(absl::StrCat(tensors.path(), ": tensor \"", shown, "\" has shape ",
                                     ShapeString(tensor->shape), ", must have ", n_dims,
                                     " dimensions in [1, ", kSize.max, "]"));
}

}  // namespace

absl::Status ReadPostLnSizes(const TensorSource& tensors, const std::string& path,
                             ModelSpec* spec) {
  NG_ASSIGN_OR_RETURN(const std::vector<int64_t> embedding, SizesOf(tensors, "w_emb", 2));
  NG_ASSIGN_OR_RETURN(const std::vector<int64_t> positions, SizesOf(tensors, "pos_embed", 2));
  NG_ASSIGN_OR_RETURN(const std::vector<int64_t> blocks, SizesOf(tensors, "blocks_weights", 4));
  if (blocks[0] > kCount.max) {
    return ModelFileError(absl::StrCat(tensors.path(), ": tensor \"blocks_weights\" holds ",
                                       blocks[0], " layers, at most ", kCount.max, " can run"));
  }
  spec->shape.vocab_size = embedding[0];
  spec->shape.max_positions = positions[0];
  spec->shape.n_layers = static_cast<int>(blocks[0]);
  spec->width = spec->ffn_width = embedding[1];
  if (spec->width % spec->shape.n_heads != 0) {
    return ModelFileError(absl::StrCat(path, ": key \"num_heads\" = ", spec->shape.n_heads,
                                       ", must divide the model's width ", spec->width));
  }
  spec->shape.head_dim = static_cast<int>(spec->width / spec->shape.n_heads);
  return absl::OkStatus();
}

}  // namespace ng
