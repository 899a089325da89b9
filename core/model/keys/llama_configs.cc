#include "core/model/keys/llama_configs.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/keys/expert_configs.h"
#include "core/model/keys/layer_windows.h"
#include "core/model/keys/rope_keys.h"
#include "core/model/keys/state_configs.h"
#include "core/model/spec/limits.h"

namespace ng {
namespace {

struct LlamaSource {
  const JsonFields& config;
  const std::string& path;
  const LlamaRow& row;
};

// The latents, and the widths of a head.
absl::Status ReadLatent(const LlamaSource& source, SelfAttentionSpec* attention) {
  const JsonFields& config = source.config;
  const LatentRow& row = *source.row.latent;
  LatentSpec& latent = attention->latent;
  if (!config.IsNull("q_lora_rank")) {
    NG_ASSIGN_OR_RETURN(latent.q_rank, IntOr(config, "q_lora_rank", kSize, row.q_rank));
  }
  NG_ASSIGN_OR_RETURN(latent.kv_rank, IntOr(config, "kv_lora_rank", kSize, row.kv_rank));
  NG_ASSIGN_OR_RETURN(const int64_t still, IntOr(config, "qk_nope_head_dim", kCount, row.nope_dim));
  NG_ASSIGN_OR_RETURN(const int64_t turns, row.rope_key.Read(config, kCount, row.rope_dim));
  NG_ASSIGN_OR_RETURN(const int64_t v_dim, IntOr(config, "v_head_dim", kSize, row.v_dim));
  if (turns % 2 != 0) {
    return ModelFileError(absl::StrCat(source.path, ": key \"", row.rope_key.key, "\" = ", turns,
                                       ", must be even for RoPE"));
  }
  if (row.head_dim_turns) {
    NG_RETURN_IF_ERROR(config.OptionalInt("head_dim", {turns, turns}).status());
  }
  attention->head_dim = static_cast<int>(still + turns);
  if (v_dim != still + turns) attention->v_head_dim = static_cast<int>(v_dim);
  latent.rope_dim = static_cast<int>(turns);
  latent.norm = {.kind = NormKind::kRmsNorm, .eps = static_cast<float>(row.eps)};
  return absl::OkStatus();
}

// yarn's correction of the scores, which the families with latents have; 0: the usual scale.
absl::StatusOr<double> ReadLatentScale(const JsonFields& config, const RopeSpec& rope,
                                       int head_dim) {
  if (rope.scaling.kind == RopeScalingKind::kNone) return 0.0;
  const char* const key = config.Has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  NG_ASSIGN_OR_RETURN(const auto fields, config.OptionalObject(key));
  NG_ASSIGN_OR_RETURN(const auto weight, fields->OptionalNumber("mscale_all_dim", {0.0, 1e6}));
  if (weight.value_or(0.0) == 0.0 || rope.scaling.factor <= 1.0) return 0.0;
  const double magnitude = 0.1 * *weight * std::log(rope.scaling.factor) + 1.0;
  return magnitude * magnitude / std::sqrt(static_cast<double>(head_dim));
}

// The heads of every layer, and the model's shape with them.
absl::Status ReadHeads(const LlamaSource& source, SelfAttentionSpec* attention, ModelSpec* spec) {
  const auto& [config, path, row] = source;
  const char* const kv_heads_key = row.n_kv_heads_key;
  NG_ASSIGN_OR_RETURN(const int64_t n_heads, row.keys.n_heads.Read(config, kCount, row.n_heads));
  // Null is as many as heads in every family, and shared out in those that share it out.
  int64_t n_kv_heads = n_heads;
  if (row.grouped && !config.IsNull(kv_heads_key)) {
    const int64_t absent = row.n_kv_heads == 0 ? n_heads : row.n_kv_heads;
    NG_ASSIGN_OR_RETURN(n_kv_heads, IntOr(config, kv_heads_key, kCount, absent));
  }
  if (!std::string_view(row.multi_query).empty()) {
    NG_ASSIGN_OR_RETURN(const bool one, BoolOr(config, row.multi_query, true));
    if (one) n_kv_heads = 1;
  }
  if (row.heads_in_quarters && n_heads % 4 != 0) {
    return ModelFileError(absl::StrCat(path, ": ", row.keys.n_heads.key, " = ", n_heads,
                                       ", must be a multiple of 4"));
  }
  if (row.latent != nullptr) NG_RETURN_IF_ERROR(ReadLatent(source, attention));
  int64_t head_dim = attention->head_dim;
  const bool may_be_null = row.head_dim == 0 || row.null_head_dim;
  if (head_dim == 0 && !row.shares_width && (!may_be_null || !config.IsNull(row.head_dim_key))) {
    NG_ASSIGN_OR_RETURN(head_dim, IntOr(config, row.head_dim_key, kCount, row.head_dim));
  }
  if (head_dim == 0 && spec->width % n_heads != 0) {
    return ModelFileError(absl::StrCat(path, ": ", row.keys.width.key, " = ", spec->width,
                                       " must be a multiple of ", row.keys.n_heads.key, " = ",
                                       n_heads, " where ", row.head_dim_key, " is not set"));
  }
  if (head_dim == 0) head_dim = spec->width / n_heads;
  // Its rotation would go by the key all the same.
  if (row.shares_width && row.rope_part > 0.0) {
    NG_RETURN_IF_ERROR(config.OptionalInt("head_dim", {head_dim, head_dim}).status());
  }
  if (head_dim % 2 != 0 && row.rope_layers != RopeLayers::kNone) {
    return ModelFileError(absl::StrCat(path, ": head_dim = ", head_dim, " must be even for RoPE"));
  }
  if (row.latent != nullptr && n_heads != n_kv_heads) {
    return ModelFileError(absl::StrCat(path, ": key \"", kv_heads_key, "\" = ", n_kv_heads,
                                       ", must be ", row.keys.n_heads.key, " = ", n_heads));
  }
  if (n_heads % n_kv_heads != 0) {
    return ModelFileError(absl::StrCat(path, ": ", row.keys.n_heads.key, " = ", n_heads,
                                       " must be a multiple of ", kv_heads_key, " = ", n_kv_heads));
  }
  spec->shape.n_heads = attention->n_heads = static_cast<int>(n_heads);
  spec->shape.n_kv_heads = attention->n_kv_heads = static_cast<int>(n_kv_heads);
  spec->shape.head_dim = attention->head_dim = static_cast<int>(head_dim);
  return absl::OkStatus();
}

absl::Status CheckAgreement(const std::string& path, const LlamaRow& row, bool attention,
                            bool mlp) {
  if (!row.biases_agree || attention == mlp) return absl::OkStatus();
  return ModelFileError(absl::StrCat(path, ": keys \"", row.qkv_bias.key, "\" and \"",
                                     row.mlp_bias.key, "\" differ, must be equal"));
}

// The table of all layers; kByType: of the layers that see all keys, and of the others.
absl::StatusOr<std::vector<RopeSpec>> ReadRopes(const LlamaSource& source, const LatentSpec& latent,
                                                const ModelShape& shape) {
  const auto& [config, path, row] = source;
  if (row.scaled_by_default && !config.Has("rope_parameters") && !config.Has("rope_scaling")) {
    return ModelFileError(path +
                          ": key \"rope_parameters\" is missing, it must say how RoPE is scaled");
  }
  RopeContext context = {.theta = row.theta,
                         .head_dim = latent.is_there() ? latent.rope_dim : shape.head_dim,
                         .max_positions = shape.max_positions,
                         .pairing = row.pairing,
                         .part = row.rope_part,
                         .keys = row.rope_keys};
  if (row.rope_layers != RopeLayers::kByType) {
    NG_ASSIGN_OR_RETURN(RopeSpec rope, ReadRope(config, path, context));
    rope.backwards = row.rope_backwards;
    if (row.latent != nullptr) {
      NG_ASSIGN_OR_RETURN(const bool neighbours, ReadSwitch(config, row.latent->interleave));
      rope.pairing = neighbours ? RopePairing::kInterleaved : RopePairing::kHalfSplit;
    }
    return std::vector<RopeSpec>{rope};
  }
  context.layer_type = "full_attention";
  NG_ASSIGN_OR_RETURN(const RopeSpec full, ReadRope(config, path, context));
  context.layer_type = "sliding_attention";
  context.theta = row.sliding_theta;
  context.keys.theta = row.sliding_theta_key;
  NG_ASSIGN_OR_RETURN(const RopeSpec sliding, ReadRope(config, path, context));
  return std::vector<RopeSpec>{full, sliding};
}

// Which of spec->ropes each layer has; -1: none.
absl::StatusOr<std::vector<int>> ReadRopeLayers(const LlamaSource& source,
                                                const LayerWindows& windows,
                                                const LatentSpec& latent, ModelSpec* spec) {
  const auto& [config, path, row] = source;
  const int n_layers = spec->shape.n_layers;
  bool any = row.rope_layers != RopeLayers::kNone;
  if (row.rope_layers == RopeLayers::kIfTyped) {
    NG_ASSIGN_OR_RETURN(const auto type, config.OptionalText("position_embedding_type"));
    any = type == "rope";
  }
  if (!any) {
    return std::vector<int>(static_cast<size_t>(n_layers), -1);
  }
  NG_ASSIGN_OR_RETURN(const std::vector<RopeSpec> tables, ReadRopes(source, latent, spec->shape));
  std::vector<int> ropes;
  const int64_t all_positions = spec->shape.max_positions;
  for (const RopeSpec& table : tables) {
    // Beyond them RoPE has other factors, and no position may change while a run gets longer.
    if (table.scaling.kind == RopeScalingKind::kLongRope) {
      spec->shape.max_positions =
          std::min(spec->shape.max_positions, table.scaling.original_positions);
    }
    ropes.push_back(spec->IndexIn(&spec->ropes, table));
  }
  if (spec->shape.max_positions < all_positions) spec->far_positions = all_positions;
  std::optional<std::vector<int64_t>> listed;
  int64_t interval = 0;
  if (row.rope_layers == RopeLayers::kListed) {
    NG_ASSIGN_OR_RETURN(listed, config.OptionalInts("no_rope_layers", {0, 1}));
    NG_ASSIGN_OR_RETURN(interval, IntOr(config, "no_rope_layer_interval", kCount, 4));
    if (listed && std::ssize(*listed) != n_layers) {
      return ModelFileError(absl::StrCat(path, ": key \"no_rope_layers\" lists ", listed->size(),
                                         " layers, num_hidden_layers is ", n_layers));
    }
  }
  std::vector<int> of_layers;
  for (int i = 0; i < n_layers; ++i) {
    const auto layer = static_cast<size_t>(i);
    bool turns = true;
    if (listed) turns = (*listed)[layer] == 1;
    if (!listed && interval > 0) turns = (i + 1) % interval != 0;
    if (row.rope_layers == RopeLayers::kWindowed) {
      turns = windows.window == 0 || !windows.full[layer];
    }
    if (row.rope_layers == RopeLayers::kSliding) turns = !windows.full[layer];
    const bool by_type = row.rope_layers == RopeLayers::kByType;
    of_layers.push_back(!turns ? -1 : ropes[by_type && !windows.full[layer] ? 1 : 0]);
  }
  return of_layers;
}

// Reads the eps, unless the family's norms have one that no key says.
absl::StatusOr<NormSpec> ReadNorm(const JsonFields& config, const LlamaRow& row) {
  NormSpec norm = {.kind = row.norm,
                   .eps = static_cast<float>(row.eps),
                   .weight = row.norm_affine,
                   .bias = row.norm_bias,
                   .offset = row.norm_offset};
  if (std::string_view(row.eps_key).empty()) return norm;
  NG_ASSIGN_OR_RETURN(norm.eps, EpsOr(config, row.eps_key, row.eps));
  return norm;
}

absl::Status RequireAbsent(const JsonFields& config, const std::string& path, const char* key) {
  if (std::string_view(key).empty()) return absl::OkStatus();
  const nlohmann::json* const value = config.Find(key);
  if (value == nullptr || SaysNothing(*value)) return absl::OkStatus();
  return ModelFileError(
      absl::StrCat(path, ": key \"", key, "\" = ", JsonExcerpt(*value), ", can run only without"));
}

// Factors and caps.
absl::Status ReadScalars(const LlamaSource& source, ModelSpec* spec, SelfAttentionSpec* attention,
                         LayerSpec* blocks) {
  const JsonFields& config = source.config;
  const LlamaRow& row = source.row;
  const auto read = [&](const char* key, double absent) -> absl::StatusOr<double> {
    if (std::string_view(key).empty()) return absent;
    return FactorOr(config, key, absent);
  };
  NG_ASSIGN_OR_RETURN(const bool scaled, ReadSwitch(config, row.width_scales_embedding));
  const double width = scaled ? static_cast<double>(spec->width) : 1.0;
  NG_ASSIGN_OR_RETURN(const double embedding, read(row.embedding_multiplier, std::sqrt(width)));
  NG_ASSIGN_OR_RETURN(const double residual, read(row.residual_multiplier, 1.0));
  NG_ASSIGN_OR_RETURN(const double divisor, read(row.logit_divisor, 1.0));
  NG_ASSIGN_OR_RETURN(const double logits, read(row.logit_multiplier, row.logit_multiplier_absent));
  spec->embedding.scale = static_cast<float>(embedding);
  for (BlockSpec& block : *blocks) block.scale = static_cast<float>(residual);
  spec->head.scale = static_cast<float>(logits / divisor);
  const bool usual =
      row.attention_multiplier_absent == 0.0 && !config.Has(row.attention_multiplier);
  if (!std::string_view(row.attention_multiplier).empty() && !usual) {
    NG_ASSIGN_OR_RETURN(attention->scale, FactorOr(config, row.attention_multiplier,
                                                   row.attention_multiplier_absent));
  }
  if (row.attention_scale > 0.0) attention->scale = row.attention_scale;
  if (row.query_scalar > 0.0) {
    NG_ASSIGN_OR_RETURN(const double scalar,
                        FactorOr(config, "query_pre_attn_scalar", row.query_scalar));
    attention->scale = 1.0 / std::sqrt(scalar);
  }
  if (!std::string_view(row.clip).empty()) {
    NG_ASSIGN_OR_RETURN(const std::optional<double> clip,
                        config.OptionalNumber(row.clip, {1e-9, 1e9}));
    attention->clip = clip.value_or(0.0);
  }
  const auto cap = [&](bool caps, const char* key, double absent) -> absl::StatusOr<double> {
    if (!caps || config.IsNull(key)) return 0.0;
    return FactorOr(config, key, absent);
  };
  NG_ASSIGN_OR_RETURN(attention->soft_cap,
                      cap(row.attention_caps, "attn_logit_softcapping", row.attention_cap));
  NG_ASSIGN_OR_RETURN(const double logit_cap,
                      cap(row.logit_caps, "final_logit_softcapping", row.logit_cap));
  spec->head.soft_cap = static_cast<float>(logit_cap);
  return absl::OkStatus();
}

}  // namespace

std::vector<float> AlibiSlopes(int n_heads) {
  int power = 1;
  while (power * 2 <= n_heads) power *= 2;
  std::vector<float> slopes;
  for (int i = 0; i < n_heads; ++i) {
    const double step = i < power ? i + 1 : i - power + 0.5;
    slopes.push_back(static_cast<float>(std::exp2(-8.0 * step / power)));
  }
  return slopes;
}

namespace {

absl::StatusOr<LayerSpec> ReadBlocks(const LlamaSource& source, const NormSpec& norm) {
  NG_ASSIGN_OR_RETURN(const bool special, ReadSwitch(source.config, source.row.norms_key));
  const Norms norms = special ? source.row.norms : Norms::kBefore;
  LayerSpec blocks = PreNormLayer(norm);
  for (BlockSpec& block : blocks) {
    if (norms == Norms::kAfter) block.before = {};
    if (norms == Norms::kAfter || norms == Norms::kAround) block.after = norm;
    if (source.row.inner_norms) block.inner = norm;
  }
  if (norms == Norms::kStream) {
    for (BlockSpec& block : blocks) std::swap(block.before, block.stream_norm);
  }
  if (norms == Norms::kParallel) blocks[1].input = BlockInput::kOfBlockBefore;
  return blocks;
}

}  // namespace

absl::StatusOr<ModelSpec> ReadLlamaLike(const JsonFields& config, const std::string& path,
                                        const LlamaRow& row) {
  const LlamaSource source = {config, path, row};
  NG_RETURN_IF_ERROR(RequirePlain(config, path, row.quantization, row.layers_own_config));
  for (const char* key : {row.without, row.without_too}) {
    NG_RETURN_IF_ERROR(RequireAbsent(config, path, key));
  }
  for (const char* key : {row.only_with, row.only_with_too}) {
    NG_RETURN_IF_ERROR(Require(config, path, key, true));
  }
  ModelSpec spec;
  NG_ASSIGN_OR_RETURN(spec.shape.vocab_size, IntOr(config, "vocab_size", kSize, row.vocab_size));
  NG_ASSIGN_OR_RETURN(spec.shape.max_positions,
                      row.keys.max_positions.Read(config, kPositions, row.max_positions));
  NG_ASSIGN_OR_RETURN(spec.width, row.keys.width.Read(config, kSize, row.width));
  NG_RETURN_IF_ERROR(config.OptionalInt(row.only_width, {spec.width, spec.width}).status());
  FeedForwardSpec feed_forward;
  feed_forward.gated = row.gated;
  const int64_t inner = row.ffn_width == 0 ? 4 * spec.width : row.ffn_width;
  NG_ASSIGN_OR_RETURN(feed_forward.width,
                      row.keys.ffn_width.Read(config, kSize, inner, row.ffn_width == 0));
  NG_ASSIGN_OR_RETURN(const int64_t n_layers, row.keys.n_layers.Read(config, kCount, row.n_layers));
  std::vector<Operation> operations(static_cast<size_t>(n_layers), Operation::kAttention);
  if (row.hybrid != nullptr) {
    NG_ASSIGN_OR_RETURN(operations, row.hybrid->read_layers(config, path, n_layers));
  }
  spec.shape.n_layers = static_cast<int>(operations.size());
  spec.embedding.positions = row.learned_positions || row.sinusoids;
  spec.embedding.sinusoids = row.sinusoids;
  spec.embedding.position_offset = row.position_offset;
  SelfAttentionSpec attention;
  NG_RETURN_IF_ERROR(ReadHeads(source, &attention, &spec));
  NG_ASSIGN_OR_RETURN(const NormSpec norm, ReadNorm(config, row));
  NG_ASSIGN_OR_RETURN(const bool qk_norm, ReadSwitch(config, row.qk_norm));
  if (qk_norm) attention.qk_norm = norm;
  attention.qk_norm_kind = row.qk_norm_kind;
  if (row.sinks) attention.sinks.assign(static_cast<size_t>(attention.n_heads), 0.0F);
  attention.gate = row.attention_gate;
  if (row.alibi) attention.alibi_slopes = AlibiSlopes(attention.n_heads);
  feed_forward.activation = row.activations.front().activation;
  if (!std::string_view(row.activation_key).empty()) {
    NG_ASSIGN_OR_RETURN(feed_forward.activation,
                        ReadActivation(config, path, row.activation_key, row.activations));
  }
  if (row.norms != Norms::kStream) spec.head.norm = norm;
  if (row.embedding_norm) spec.embedding.norm = norm;
  spec.head.bias = row.head_bias;
  NG_ASSIGN_OR_RETURN(spec.head.tied, BoolOr(config, "tie_word_embeddings", row.tied_head));
  if (!std::string_view(row.tied_key).empty()) {
    NG_ASSIGN_OR_RETURN(spec.head.tied, BoolOr(config, row.tied_key, spec.head.tied));
  }
  NG_ASSIGN_OR_RETURN(attention.qkv_bias, ReadSwitch(config, row.qkv_bias));
  NG_ASSIGN_OR_RETURN(attention.out_bias, ReadSwitch(config, row.attn_out_bias));
  NG_ASSIGN_OR_RETURN(feed_forward.bias, ReadSwitch(config, row.mlp_bias));
  NG_RETURN_IF_ERROR(CheckAgreement(path, row, attention.qkv_bias, feed_forward.bias));
  NG_ASSIGN_OR_RETURN(LayerSpec blocks, ReadBlocks(source, norm));
  NG_RETURN_IF_ERROR(ReadScalars(source, &spec, &attention, &blocks));
  NG_ASSIGN_OR_RETURN(const LayerWindows windows, ReadWindows(config, path, row, spec));
  NG_ASSIGN_OR_RETURN(const std::vector<int> ropes,
                      ReadRopeLayers(source, windows, attention.latent, &spec));
  if (attention.latent.is_there()) {
    NG_ASSIGN_OR_RETURN(attention.scale,
                        ReadLatentScale(config, spec.ropes[0], attention.head_dim));
  }
  std::vector<std::optional<MixtureSpec>> mixtures(ropes.size());
  if (row.experts != nullptr) {
    NG_ASSIGN_OR_RETURN(mixtures, ReadMixtures(config, path, *row.experts, spec, feed_forward));
  }
  StateSpec state;
  if (row.hybrid != nullptr) {
    NG_ASSIGN_OR_RETURN(state, row.hybrid->read_state(config, path, spec.width, norm.eps));
  }
  const bool one_block = row.hybrid != nullptr && row.hybrid->one_block;
  for (size_t layer = 0; layer < ropes.size(); ++layer) {
    attention.window = windows.Of(layer);
    attention.rope = ropes[layer];
    const Operation operation = operations[layer];
    const bool mixes = one_block ? operation == Operation::kMixture : mixtures[layer].has_value();
    const bool mlp = operation == Operation::kFeedForward || operation == Operation::kMixture;
    spec.AddLayer(one_block ? LayerSpec{blocks[mlp ? 1 : 0]} : blocks,
                  {attention, feed_forward, mixes ? &*mixtures[layer] : nullptr,
                   operation == Operation::kState ? &state : nullptr});
  }
  return spec;
}

}  // namespace ng
