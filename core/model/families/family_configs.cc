#include "core/model/families/family_configs.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/families/expert_rows.h"
#include "core/model/families/layer_norm_rows.h"
#include "core/model/families/llama_rows.h"
#include "core/model/families/state_rows.h"
#include "core/model/keys/config_fields.h"
#include "core/model/keys/edit_attentions.h"
#include "core/model/spec/limits.h"

namespace ng {
namespace {

// As many layers as the shape says, all alike.
void AddLayers(const LayerSpec& blocks, const SelfAttentionSpec& attention,
               const FeedForwardSpec& feed_forward, ModelSpec* spec) {
  for (int i = 0; i < spec->shape.n_layers; ++i) spec->AddLayer(blocks, {attention, feed_forward});
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

namespace {

constexpr Range<double> kFactors = {1e-9, 1e9};

// What MPT's own code does by these keys transformers does not.
absl::Status RequirePlainMpt(const JsonFields& attention, const std::string& path) {
  NG_RETURN_IF_ERROR(Require(attention, path, "alibi", true));
  NG_RETURN_IF_ERROR(Require(attention, path, "prefix_lm", false));
  NG_RETURN_IF_ERROR(attention.OptionalInt("alibi_bias_max", {8, 8}).status());
  return Require(attention, path, "qk_ln", false);
}

}  // namespace

absl::StatusOr<ModelSpec> ReadLfm2Spec(const JsonFields& config, const std::string& path) {
  NG_ASSIGN_OR_RETURN(ModelSpec spec, ReadLlamaLike(config, path, kLfm2Row));
  NG_ASSIGN_OR_RETURN(const bool adjusts, BoolOr(config, "block_auto_adjust_ff_dim", true));
  if (!adjusts) return spec;
  NG_ASSIGN_OR_RETURN(const int64_t unit, IntOr(config, "block_multiple_of", kSize, 256));
  for (FeedForwardSpec& feed_forward : spec.feed_forwards) {
    feed_forward.width = 2 * feed_forward.width / 3;
    if (config.IsNull("block_ffn_dim_multiplier")) continue;
    NG_ASSIGN_OR_RETURN(const std::optional<double> factor,
                        config.OptionalNumber("block_ffn_dim_multiplier", {1e-6, 1e3}));
    feed_forward.width =
        static_cast<int64_t>(factor.value_or(1.0) * static_cast<double>(feed_forward.width));
    feed_forward.width = (feed_forward.width + unit - 1) / unit * unit;
    if (feed_forward.width <= kSize.max && feed_forward.width > 0) continue;
    return ModelFileError(absl::StrCat(path, ": key \"block_ffn_dim_multiplier\" makes a width of ",
                                       feed_forward.width, ", must be in [1, ", kSize.max, "]"));
  }
  return spec;
}

absl::StatusOr<ModelSpec> ReadMptSpec(const JsonFields& config, const std::string& path) {
  NG_ASSIGN_OR_RETURN(ModelSpec spec, ReadLlamaLike(config, path, kMptRow));
  std::optional<double> clip;
  std::optional<double> scale;
  NG_ASSIGN_OR_RETURN(const auto attention, config.OptionalObject("attn_config"));
  if (attention) {
    NG_RETURN_IF_ERROR(RequirePlainMpt(*attention, path));
    NG_ASSIGN_OR_RETURN(clip, attention->OptionalNumber("clip_qkv", kFactors));
    NG_ASSIGN_OR_RETURN(scale, attention->OptionalNumber("softmax_scale", kFactors));
  }
  EditAttentions(&spec, [&](size_t /*layer*/, SelfAttentionSpec* mine) {
    mine->alibi_slopes = AlibiSlopes(mine->n_heads);
    mine->clip = clip.value_or(0.0);
    mine->scale = scale.value_or(0.0);
  });
  return spec;
}

absl::StatusOr<ModelSpec> ReadXglmSpec(const JsonFields& config, const std::string& path) {
  // The position whose row has the number of that token would be all zeros.
  NG_RETURN_IF_ERROR(config.OptionalInt("pad_token_id", {0, 1}).status());
  return ReadLlamaLike(config, path, kXglmRow);
}

absl::StatusOr<ModelSpec> ReadMinistral3Spec(const JsonFields& config, const std::string& path) {
  NG_ASSIGN_OR_RETURN(ModelSpec spec, ReadLlamaLike(config, path, kMinistral3Row));
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const char* const key = config.Has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  NG_ASSIGN_OR_RETURN(const auto rope, config.OptionalObject(key));
  QueryTemperature temperature = {.offset = 0};
  NG_ASSIGN_OR_RETURN(temperature.coefficient, rope->Number("llama_4_scaling_beta", {0.0, 1e6}));
  NG_ASSIGN_OR_RETURN(const auto beside, config.OptionalInt(kOriginal, kPositions));
  NG_ASSIGN_OR_RETURN(temperature.length, rope->Int(kOriginal, kPositions));
  if (beside) temperature.length = *beside;
  EditAttentions(&spec, [&](size_t /*layer*/, SelfAttentionSpec* mine) {
    if (temperature.coefficient != 0.0) mine->temperature = temperature;
  });
  return spec;
}

namespace {

// Which layers see chunks of keys: those that rotate, unless layer_types says it.
absl::StatusOr<std::vector<bool>> ReadChunkedLayers(const JsonFields& config,
                                                    const std::string& path,
                                                    const ModelSpec& spec) {
  constexpr const char* kKey = "layer_types";
  std::vector<bool> chunked;
  NG_ASSIGN_OR_RETURN(const auto types, config.OptionalTexts(kKey));
  if (!types) {
    for (const LayerSpec& blocks : spec.layers) {
      chunked.push_back(spec.AttentionOf(blocks.front()).rope >= 0);
    }
    return chunked;
  }
  for (const std::string& type : *types) {
    chunked.push_back(type == "chunked_attention");
    if (chunked.back() || type == "full_attention") continue;
    return ModelFileError(absl::StrCat(path, ": key \"", kKey, "[", chunked.size() - 1,
                                       "]\" = ", JsonExcerpt(type),
                                       ", must be \"full_attention\" or \"chunked_attention\""));
  }
  if (std::ssize(chunked) == spec.shape.n_layers) return chunked;
  return ModelFileError(absl::StrCat(path, ": key \"", kKey, "\" lists ", chunked.size(),
                                     " layers, num_hidden_layers is ", spec.shape.n_layers));
}

}  // namespace

absl::StatusOr<ModelSpec> ReadLlama4Spec(const JsonFields& config, const std::string& path) {
  return ReadLlama4Like(config, path, kLlama4Row);
}

absl::StatusOr<ModelSpec> ReadLlama4Like(const JsonFields& config, const std::string& path,
                                         const LlamaRow& row) {
  NG_ASSIGN_OR_RETURN(ModelSpec spec, ReadLlamaLike(config, path, row));
  NG_ASSIGN_OR_RETURN(const bool norms, BoolOr(config, "use_qk_norm", true));
  NG_ASSIGN_OR_RETURN(const bool tuned, BoolOr(config, "attn_temperature_tuning", true));
  QueryTemperature temperature;
  NG_ASSIGN_OR_RETURN(temperature.length, IntOr(config, "floor_scale", kPositions, 8192));
  NG_ASSIGN_OR_RETURN(temperature.coefficient, FactorOr(config, "attn_scale", 0.1));
  NG_ASSIGN_OR_RETURN(const std::vector<bool> chunked, ReadChunkedLayers(config, path, spec));
  int64_t chunk = 0;
  if (std::ranges::count(chunked, true) > 0) {
    NG_ASSIGN_OR_RETURN(chunk, IntOr(config, "attention_chunk_size", kPositions, 8192));
  }
  NormSpec norm = spec.head.norm;
  norm.weight = false;
  EditAttentions(&spec, [&](size_t layer, SelfAttentionSpec* mine) {
    mine->window = chunked[layer] ? chunk : 0;
    mine->chunks = chunked[layer];
    if (mine->rope < 0) {
      if (tuned) mine->temperature = temperature;
    } else if (norms) {
      mine->qk_norm = norm;
      mine->qk_norm_kind = QkNormKind::kHeadsAfterRope;
    }
  });
  return spec;
}

namespace {

// As true as Python takes a switch; what is none of these is an error of the reader's.
bool Says(const JsonFields& config, const char* key, bool absent) {
  const nlohmann::json* const value = config.Find(key);
  if (value == nullptr) return absent && !config.IsNull(key);
  return value->is_boolean() ? value->get<bool>() : absent;
}

}  // namespace

FalconForm FalconFormOf(const JsonFields& config) {
  if (!Says(config, "new_decoder_architecture", false)) {
    return Says(config, "parallel_attn", true) ? FalconForm::kOneNorm : FalconForm::kInTurn;
  }
  const nlohmann::json* const n_norms = config.Find("num_ln_in_parallel_attn");
  const bool two = n_norms == nullptr || *n_norms == 2;
  return two ? FalconForm::kGroupedTwoNorms : FalconForm::kGroupedOneNorm;
}

}  // namespace ng
