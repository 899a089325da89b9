#include "core/model/family_configs.h"

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/limits.h"
#include "core/model/rope.h"

namespace ng {
namespace {

// A switch of the format that the decoder has only one position of.
absl::Status Require(const JsonFields& config, const std::string& path, std::string_view key,
                     bool wanted) {
  NG_ASSIGN_OR_RETURN(const std::optional<bool> found, config.OptionalBool(key));
  if (found.value_or(wanted) == wanted) return absl::OkStatus();
  return ModelFileError(absl::StrCat(
      path, ": key \"", absl::string_view(key.data(), key.size()),
      wanted ? "\" = false, can run only with true" : "\" = true, can run only with false"));
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

// The heads, with what an absent key means: as many kv heads as heads, hidden_size shared out.
absl::Status ReadLlamaHeads(const JsonFields& config, const std::string& path, ModelSpec* spec) {
  NG_ASSIGN_OR_RETURN(const int64_t n_heads, config.Int("num_attention_heads", kCount));
  NG_ASSIGN_OR_RETURN(const std::optional<int64_t> n_kv_heads,
                      config.OptionalInt("num_key_value_heads", kCount));
  NG_ASSIGN_OR_RETURN(std::optional<int64_t> head_dim, config.OptionalInt("head_dim", kCount));
  if (!head_dim && spec->width % n_heads != 0) {
    return ModelFileError(absl::StrCat(path, ": hidden_size = ", spec->width,
                                       " must be a multiple of num_attention_heads = ", n_heads,
                                       " where head_dim is not set"));
  }
  if (!head_dim) head_dim = spec->width / n_heads;
  if (*head_dim % 2 != 0) {
    return ModelFileError(absl::StrCat(path, ": head_dim = ", *head_dim, " must be even for RoPE"));
  }
  if (n_heads % n_kv_heads.value_or(n_heads) != 0) {
    return ModelFileError(
        absl::StrCat(path, ": num_attention_heads = ", n_heads,
                     " must be a multiple of num_key_value_heads = ", *n_kv_heads));
  }
  spec->shape.n_heads = static_cast<int>(n_heads);
  spec->shape.n_kv_heads = static_cast<int>(n_kv_heads.value_or(n_heads));
  spec->shape.head_dim = static_cast<int>(*head_dim);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelSpec> ReadLlamaSpec(const JsonFields& config, const std::string& path) {
  ModelSpec spec;
  NG_ASSIGN_OR_RETURN(spec.shape.vocab_size, config.Int("vocab_size", kSize));
  NG_ASSIGN_OR_RETURN(spec.shape.max_positions, config.Int("max_position_embeddings", kPositions));
  NG_ASSIGN_OR_RETURN(spec.width, config.Int("hidden_size", kSize));
  NG_ASSIGN_OR_RETURN(spec.ffn_width, config.Int("intermediate_size", kSize));
  NG_ASSIGN_OR_RETURN(const int64_t n_layers, config.Int("num_hidden_layers", kCount));
  spec.shape.n_layers = static_cast<int>(n_layers);
  NG_RETURN_IF_ERROR(ReadLlamaHeads(config, path, &spec));
  NG_ASSIGN_OR_RETURN(const double eps, config.Number("rms_norm_eps", kEps));
  spec.norm_eps = static_cast<float>(eps);
  spec.rope_pairing = RopePairing::kHalfSplit;
  NG_RETURN_IF_ERROR(ReadRope(config, path, &spec));
  NG_ASSIGN_OR_RETURN(const std::string activation, config.Text("hidden_act"));
  if (activation != "silu") {
    return ModelFileError(absl::StrCat(path, ": key \"hidden_act\" = ", JsonExcerpt(activation),
                                       ", can run only with \"silu\""));
  }
  NG_ASSIGN_OR_RETURN(const std::optional<bool> bias, config.OptionalBool("attention_bias"));
  spec.qkv_bias = spec.attn_out_bias = bias.value_or(false);
  NG_ASSIGN_OR_RETURN(const std::optional<bool> mlp_bias, config.OptionalBool("mlp_bias"));
  spec.mlp_bias = mlp_bias.value_or(false);
  NG_ASSIGN_OR_RETURN(const std::optional<bool> tied, config.OptionalBool("tie_word_embeddings"));
  spec.tied_head = tied.value_or(false);
  return spec;
}

absl::StatusOr<ModelSpec> ReadMistralSpec(const JsonFields& config, const std::string& path) {
  NG_ASSIGN_OR_RETURN(ModelSpec spec, ReadLlamaSpec(config, path));
  NG_ASSIGN_OR_RETURN(const std::optional<int64_t> window,
                      config.OptionalInt("sliding_window", kPositions));
  spec.window = window.value_or(0);
  return spec;
}

namespace {

// Whether a layer attends to a window only, where the config lists what each one does. Errors: it
// does anything else, or so where the config uses no window.
absl::StatusOr<std::optional<bool>> ReadLayerTypes(const JsonFields& config,
                                                   const std::string& path, bool window_used,
                                                   const ModelSpec& spec) {
  constexpr const char* kKey = "layer_types";
  NG_ASSIGN_OR_RETURN(const auto types, config.OptionalTexts(kKey));
  if (!types) return std::nullopt;
  if (std::ssize(*types) != spec.shape.n_layers) {
    return ModelFileError(absl::StrCat(path, ": key \"", kKey, "\" lists ", types->size(),
                                       " layers, num_hidden_layers is ", spec.shape.n_layers));
  }
  bool slides = false;
  for (size_t i = 0; i < types->size(); ++i) {
    const std::string& type = (*types)[i];
    const bool has_window = window_used && type == "sliding_attention";
    slides = slides || has_window;
    if (has_window || type == "full_attention") continue;
    return ModelFileError(absl::StrCat(
        path, ": key \"", kKey, "[", i, "]\" = ", JsonExcerpt(type), ", must be \"full_attention\"",
        window_used ? " or \"sliding_attention\"" : " where use_sliding_window is not true"));
  }
  return slides;
}

// Of the layers that are listed so, or else those from max_window_layers on; one bound for all is
// the strictest.
absl::Status ReadQwenWindow(const JsonFields& config, const std::string& path, ModelSpec* spec) {
  NG_ASSIGN_OR_RETURN(const std::optional<bool> used, config.OptionalBool("use_sliding_window"));
  NG_ASSIGN_OR_RETURN(std::optional<bool> slides,
                      ReadLayerTypes(config, path, used.value_or(false), *spec));
  if (!used.value_or(false)) return absl::OkStatus();
  if (!slides) {
    NG_ASSIGN_OR_RETURN(const int64_t full_layers,
                        config.Int("max_window_layers", {0, kPositions.max}));
    slides = full_layers < spec->shape.n_layers;
  }
  if (!*slides) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(spec->window, config.Int("sliding_window", kPositions));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelSpec> ReadQwen2Spec(const JsonFields& config, const std::string& path) {
  NG_ASSIGN_OR_RETURN(ModelSpec spec, ReadLlamaSpec(config, path));
  NG_RETURN_IF_ERROR(ReadQwenWindow(config, path, &spec));
  spec.qkv_bias = true;
  return spec;
}

absl::StatusOr<ModelSpec> ReadQwen3Spec(const JsonFields& config, const std::string& path) {
  // Not hidden_size shared out where it is absent, as in llama.
  NG_RETURN_IF_ERROR(config.Int("head_dim", kCount).status());
  NG_ASSIGN_OR_RETURN(ModelSpec spec, ReadLlamaSpec(config, path));
  NG_RETURN_IF_ERROR(ReadQwenWindow(config, path, &spec));
  spec.qk_norm = true;
  return spec;
}

namespace {

// What nanoGPT and GPT-2 share: pre-norm LayerNorm, learned positions, as many kv heads as heads.
absl::Status ReadGptShape(const JsonFields& config, const std::string& path,
                          std::string_view positions_key, ModelSpec* spec) {
  NG_ASSIGN_OR_RETURN(spec->shape.vocab_size, config.Int("vocab_size", kSize));
  NG_ASSIGN_OR_RETURN(spec->shape.max_positions, config.Int(positions_key, kSize));
  NG_ASSIGN_OR_RETURN(spec->width, config.Int("n_embd", kSize));
  NG_ASSIGN_OR_RETURN(const int64_t n_layers, config.Int("n_layer", kCount));
  NG_ASSIGN_OR_RETURN(const int64_t n_heads, config.Int("n_head", kCount));
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
  NG_RETURN_IF_ERROR(ReadGptShape(config, path, "block_size", &spec));
  NG_ASSIGN_OR_RETURN(const bool bias, config.Bool("bias"));
  SetBiases(bias, &spec);
  spec.norm_eps = 1e-5F;
  spec.activation = Activation::kGeluErf;
  return spec;
}

namespace {

absl::StatusOr<Activation> ReadGpt2Activation(const JsonFields& config, const std::string& path) {
  NG_ASSIGN_OR_RETURN(const std::string name, config.Text("activation_function"));
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  if (name == "gelu") return Activation::kGeluErf;
  return ModelFileError(absl::StrCat(path, ": key \"activation_function\" = ", JsonExcerpt(name),
                                     ", must be one of: gelu_new, gelu_pytorch_tanh, gelu"));
}

}  // namespace

absl::StatusOr<ModelSpec> ReadGpt2Spec(const JsonFields& config, const std::string& path) {
  ModelSpec spec;
  NG_RETURN_IF_ERROR(ReadGptShape(config, path, "n_positions", &spec));
  NG_ASSIGN_OR_RETURN(const std::optional<int64_t> n_inner, config.OptionalInt("n_inner", kSize));
  spec.ffn_width = n_inner.value_or(spec.ffn_width);
  NG_ASSIGN_OR_RETURN(const double eps, config.Number("layer_norm_epsilon", kEps));
  spec.norm_eps = static_cast<float>(eps);
  NG_ASSIGN_OR_RETURN(spec.activation, ReadGpt2Activation(config, path));
  SetBiases(true, &spec);
  NG_RETURN_IF_ERROR(Require(config, path, "scale_attn_weights", true));
  NG_RETURN_IF_ERROR(Require(config, path, "scale_attn_by_inverse_layer_idx", false));
  NG_RETURN_IF_ERROR(Require(config, path, "add_cross_attention", false));
  NG_ASSIGN_OR_RETURN(const std::optional<bool> tied, config.OptionalBool("tie_word_embeddings"));
  spec.tied_head = tied.value_or(true);
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
