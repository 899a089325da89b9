#include "core/model/family_configs.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/config_fields.h"
#include "core/model/limits.h"

namespace ng {
namespace {

// As many layers as the shape says, all alike.
void AddLayers(const LayerSpec& blocks, const SelfAttentionSpec& attention,
               const FeedForwardSpec& feed_forward, ModelSpec* spec) {
  for (int i = 0; i < spec->shape.n_layers; ++i) spec->AddLayer(blocks, attention, feed_forward);
}

}  // namespace

absl::StatusOr<ModelSpec> ReadNielsSpec(const JsonFields& config, const std::string& path) {
  ModelSpec spec;
  NG_ASSIGN_OR_RETURN(spec.shape.vocab_size, config.Int("V", kSize));
  NG_ASSIGN_OR_RETURN(spec.shape.max_positions, config.Int("T", kPositions));
  NG_ASSIGN_OR_RETURN(spec.width, config.Int("C", kSize));
  NG_ASSIGN_OR_RETURN(const int64_t n_layers, config.Int("L", kCount));
  NG_ASSIGN_OR_RETURN(const int64_t n_heads, config.Int("H", {1, spec.width}));
  FeedForwardSpec feed_forward = {.bias = true};
  NG_ASSIGN_OR_RETURN(feed_forward.width, config.Int("d_ff", kSize));
  RopeSpec rope = {.pairing = RopePairing::kInterleaved};
  NG_ASSIGN_OR_RETURN(rope.theta, config.Number("rope_theta", {1.0, 1e12}));
  spec.shape.n_layers = static_cast<int>(n_layers);
  spec.shape.n_heads = spec.shape.n_kv_heads = static_cast<int>(n_heads);
  if (spec.width % n_heads != 0 || (spec.width / n_heads) % 2 != 0) {
    return ModelFileError(absl::StrCat(path, ": C = ", spec.width, " and H = ", n_heads,
                                       ": C must be a multiple of H, and C / H even for RoPE"));
  }
  spec.shape.head_dim = static_cast<int>(spec.width / n_heads);
  rope.n_dims = spec.shape.head_dim;
  SelfAttentionSpec attention = AttentionOfShape(spec.shape);
  attention.rope = spec.IndexIn(&spec.ropes, rope);
  const NormSpec norm = {.kind = NormKind::kRmsNorm, .eps = 1e-5F};
  spec.head.norm = norm;
  AddLayers(PreNormLayer(norm), attention, feed_forward, &spec);
  return spec;
}

namespace {

// A size that must be there, where nothing says what it is else.
struct GptKey {
  SizeKey key;
  int64_t absent = 0;  // 0: it must be there

  absl::StatusOr<int64_t> Read(const JsonFields& config, Range<int64_t> range) const {
    NG_ASSIGN_OR_RETURN(const int64_t found,
                        key.Read(config, range, absent, /*null_is_absent=*/true));
    return found == 0 ? config.Int(key.key, range) : found;  // the error
  }
};

struct GptKeys {
  GptKey vocab_size, positions, width, layers, heads;
};
constexpr GptKeys kNanoGpt = {
    {{"vocab_size"}}, {{"block_size"}}, {{"n_embd"}}, {{"n_layer"}}, {{"n_head"}}};
// With the names and values of GPT2Config in transformers.
constexpr GptKeys kGpt2 = {{{"vocab_size"}, 50257},
                           {{"n_positions", "max_position_embeddings"}, 1024},
                           {{"n_embd", "hidden_size"}, 768},
                           {{"n_layer", "num_hidden_layers"}, 12},
                           {{"n_head", "num_attention_heads"}, 12}};

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
  spec->embedding.positions = true;
  return absl::OkStatus();
}

// All biases or none.
void AddGptLayers(bool biases, float eps, FeedForwardSpec feed_forward, ModelSpec* spec) {
  const NormSpec norm = {.kind = NormKind::kLayerNorm, .eps = eps, .bias = biases};
  SelfAttentionSpec attention = AttentionOfShape(spec->shape);
  attention.qkv_bias = attention.out_bias = feed_forward.bias = biases;
  feed_forward.gated = false;
  if (feed_forward.width == 0) feed_forward.width = 4 * spec->width;
  spec->head.norm = norm;
  AddLayers(PreNormLayer(norm), attention, feed_forward, spec);
}

}  // namespace

absl::StatusOr<ModelSpec> ReadNanoGptSpec(const JsonFields& config, const std::string& path) {
  ModelSpec spec;
  NG_RETURN_IF_ERROR(ReadGptShape(config, path, kNanoGpt, &spec));
  NG_ASSIGN_OR_RETURN(const bool bias, config.Bool("bias"));
  AddGptLayers(bias, 1e-5F, {.activation = Activation::kGeluErf}, &spec);
  return spec;
}

absl::StatusOr<ModelSpec> ReadGpt2Spec(const JsonFields& config, const std::string& path) {
  NG_RETURN_IF_ERROR(RequirePlain(config, path));
  ModelSpec spec;
  NG_RETURN_IF_ERROR(ReadGptShape(config, path, kGpt2, &spec));
  NG_ASSIGN_OR_RETURN(const std::optional<int64_t> n_inner, config.OptionalInt("n_inner", kSize));
  FeedForwardSpec feed_forward = {.width = n_inner.value_or(0)};
  NG_ASSIGN_OR_RETURN(const float eps, EpsOr(config, "layer_norm_epsilon", 1e-5));
  NG_ASSIGN_OR_RETURN(feed_forward.activation,
                      ReadActivation(config, path, "activation_function", kGeluNames));
  NG_RETURN_IF_ERROR(Require(config, path, "scale_attn_weights", true));
  NG_RETURN_IF_ERROR(Require(config, path, "scale_attn_by_inverse_layer_idx", false));
  NG_RETURN_IF_ERROR(Require(config, path, "add_cross_attention", false));
  NG_ASSIGN_OR_RETURN(spec.head.tied, BoolOr(config, "tie_word_embeddings", true));
  AddGptLayers(true, eps, feed_forward, &spec);
  return spec;
}

absl::StatusOr<ModelSpec> ReadPostLnSpec(const JsonFields& config, const std::string& /*path*/) {
  ModelSpec spec;
  NG_ASSIGN_OR_RETURN(const int64_t n_heads, config.Int("num_heads", kCount));
  NG_ASSIGN_OR_RETURN(const double eps, config.Number("eps", kEps));
  spec.shape.n_heads = spec.shape.n_kv_heads = static_cast<int>(n_heads);
  spec.embedding.positions = true;
  spec.last_without_position = true;
  spec.head.tied = false;
  const NormSpec norm = {
      .kind = NormKind::kLayerNorm, .eps = static_cast<float>(eps), .weight = false};
  // One layer, which the sizes are missing of.
  spec.layers = {{{.operation = Operation::kAttention, .stream_norm = norm},
                  {.operation = Operation::kFeedForward, .stream_norm = norm}}};
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
  spec->width = embedding[1];
  if (spec->width % spec->shape.n_heads != 0) {
    return ModelFileError(absl::StrCat(path, ": key \"num_heads\" = ", spec->shape.n_heads,
                                       ", must divide the model's width ", spec->width));
  }
  spec->shape.head_dim = static_cast<int>(spec->width / spec->shape.n_heads);
  const LayerSpec layer = std::exchange(spec->layers, {}).front();
  AddLayers(layer, AttentionOfShape(spec->shape),
            {.width = spec->width, .activation = Activation::kGeluTanh, .gated = false}, spec);
  return absl::OkStatus();
}

}  // namespace ng
