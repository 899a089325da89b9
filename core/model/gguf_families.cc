#include "core/model/gguf_families.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/model/limits.h"

namespace ng {
namespace {

constexpr char kArchitecture[] = "general.architecture";
constexpr char kTokens[] = "tokenizer.ggml.tokens";

// What the readers read: the key-values, most of whose keys begin with the architecture.
struct Source {
  const JsonFields& metadata;
  const std::string& path;
  std::string architecture;

  static absl::StatusOr<Source> Of(const JsonFields& metadata, const std::string& path) {
    NG_ASSIGN_OR_RETURN(std::string architecture, metadata.Text(kArchitecture));
    return Source{metadata, path, std::move(architecture)};
  }

  std::string Key(const char* name) const { return absl::StrCat(architecture, ".", name); }
  absl::StatusOr<int64_t> Int(const char* name, Range<int64_t> range) const {
    return metadata.Int(Key(name), range);
  }
  absl::StatusOr<std::optional<int64_t>> OptionalInt(const char* name, Range<int64_t> range) const {
    return metadata.OptionalInt(Key(name), range);
  }
  // One for all layers, or an array with the same for each of them.
  absl::StatusOr<std::optional<int64_t>> OptionalLayersInt(const char* name, Range<int64_t> range,
                                                           int64_t n_layers) const {
    const nlohmann::json* value = metadata.Find(Key(name));
    if (value == nullptr || !value->is_object()) return OptionalInt(name, range);
    NG_ASSIGN_OR_RETURN(const std::optional<JsonFields> array, metadata.OptionalObject(Key(name)));
    NG_RETURN_IF_ERROR(array->Int("count", {n_layers, n_layers}).status());
    if (array->Has("each")) return array->OptionalInt("each", range);
    return ModelFileError(absl::StrCat(path, ": key \"", Key(name),
                                       "\" differs from layer to layer, can run only with one "
                                       "value for all"));
  }
  absl::StatusOr<int64_t> LayersInt(const char* name, Range<int64_t> range,
                                    int64_t n_layers) const {
    NG_ASSIGN_OR_RETURN(const std::optional<int64_t> found,
                        OptionalLayersInt(name, range, n_layers));
    return found ? *found : Int(name, range);  // the error
  }
};

// What every architecture may be told and the decoder cannot do.
absl::Status RequirePlain(const Source& source) {
  constexpr const char* kType = "general.type";
  NG_ASSIGN_OR_RETURN(const std::optional<std::string> type, source.metadata.OptionalText(kType));
  if (type && *type != "model") {
    return ModelFileError(absl::StrCat(source.path, ": key \"", kType, "\" = ", JsonExcerpt(*type),
                                       ", can run only with \"model\""));
  }
  constexpr const char* kSplit = "split.count";
  NG_ASSIGN_OR_RETURN(const std::optional<int64_t> n_files,
                      source.metadata.OptionalInt(kSplit, {0, kCount.max}));
  if (n_files.value_or(1) > 1) {
    return ModelFileError(absl::StrCat(source.path, ": key \"", kSplit, "\" = ", *n_files,
                                       ", can run only with 1: the model is in several files, "
                                       "which must be merged into one"));
  }
  const std::string causal = source.Key("attention.causal");
  NG_ASSIGN_OR_RETURN(const std::optional<bool> is_causal, source.metadata.OptionalBool(causal));
  if (!is_causal.value_or(true)) {
    return ModelFileError(absl::StrCat(source.path, ": key \"", causal,
                                       "\" = false, can run only with true: each token sees those "
                                       "before it"));
  }
  for (const char* name :
       {"expert_count", "expert_used_count", "expert_group_count", "nextn_predict_layers"}) {
    NG_RETURN_IF_ERROR(source.OptionalInt(name, {0, 0}).status());
  }
  return absl::OkStatus();
}

// As many as there are tokens; in a key of its own where the file has no vocabulary.
absl::StatusOr<int64_t> ReadVocabSize(const Source& source) {
  if (!source.metadata.Has(kTokens)) return source.Int("vocab_size", kSize);
  NG_ASSIGN_OR_RETURN(const std::optional<JsonFields> tokens,
                      source.metadata.OptionalObject(kTokens));
  return tokens->Int("count", kSize);
}

// The heads, with what an absent key means: as many kv heads as heads, the width shared out.
absl::Status ReadHeads(const Source& source, ModelSpec* spec) {
  const int64_t n_layers = spec->shape.n_layers;
  NG_ASSIGN_OR_RETURN(const int64_t n_heads,
                      source.LayersInt("attention.head_count", kCount, n_layers));
  NG_ASSIGN_OR_RETURN(const std::optional<int64_t> n_kv_heads,
                      source.OptionalLayersInt("attention.head_count_kv", kCount, n_layers));
  if (n_heads % n_kv_heads.value_or(n_heads) != 0) {
    return ModelFileError(absl::StrCat(source.path, ": ", source.Key("attention.head_count"), " = ",
                                       n_heads, " must be a multiple of ",
                                       source.Key("attention.head_count_kv"), " = ", *n_kv_heads));
  }
  NG_ASSIGN_OR_RETURN(std::optional<int64_t> head_dim,
                      source.OptionalInt("attention.key_length", kCount));
  if (!head_dim && spec->width % n_heads != 0) {
    return ModelFileError(
        absl::StrCat(source.path, ": ", source.Key("embedding_length"), " = ", spec->width,
                     " must be a multiple of ", source.Key("attention.head_count"), " = ", n_heads,
                     " where ", source.Key("attention.key_length"), " is not set"));
  }
  if (!head_dim) head_dim = spec->width / n_heads;
  NG_RETURN_IF_ERROR(source.OptionalInt("attention.value_length", {*head_dim, *head_dim}).status());
  spec->shape.n_heads = static_cast<int>(n_heads);
  spec->shape.n_kv_heads = static_cast<int>(n_kv_heads.value_or(n_heads));
  spec->shape.head_dim = static_cast<int>(*head_dim);
  return absl::OkStatus();
}

// What every architecture has.
absl::StatusOr<ModelSpec> ReadShape(const Source& source) {
  NG_RETURN_IF_ERROR(RequirePlain(source));
  ModelSpec spec;
  NG_ASSIGN_OR_RETURN(spec.shape.vocab_size, ReadVocabSize(source));
  NG_ASSIGN_OR_RETURN(spec.shape.max_positions, source.Int("context_length", kPositions));
  NG_ASSIGN_OR_RETURN(spec.width, source.Int("embedding_length", kSize));
  NG_ASSIGN_OR_RETURN(const int64_t n_layers, source.Int("block_count", kCount));
  spec.shape.n_layers = static_cast<int>(n_layers);
  NG_RETURN_IF_ERROR(ReadHeads(source, &spec));
  return spec;
}

// The frequencies' divisor. As the format has it, a file with a factor and no type means linear.
absl::Status ReadRopeScaling(const Source& source, RopeScaling* scaling) {
  constexpr Range<double> kFactor = {0.0, 1e6};  // 0: none
  const std::string key = source.Key("rope.scaling.type");
  NG_ASSIGN_OR_RETURN(const std::optional<std::string> type, source.metadata.OptionalText(key));
  if (type && *type != "none" && *type != "linear") {
    return ModelFileError(absl::StrCat(source.path, ": key \"", key, "\" = ", JsonExcerpt(*type),
                                       ", must be one of: none, linear"));
  }
  std::optional<double> factor;
  for (const char* name : {"rope.scaling.factor", "rope.scale_linear"}) {
    NG_ASSIGN_OR_RETURN(const std::optional<double> found,
                        source.metadata.OptionalNumber(source.Key(name), kFactor));
    if (!factor) factor = found;
  }
  if (type.value_or("linear") == "none" || factor.value_or(0.0) == 0.0) return absl::OkStatus();
  scaling->kind = RopeScalingKind::kLinear;
  scaling->factor = *factor;
  return absl::OkStatus();
}

// The rotations: of whole heads, at a base; 10000 where the file does not say, as the format has
// it.
absl::StatusOr<RopeSpec> ReadRope(const Source& source, int64_t head_dim) {
  if (head_dim % 2 != 0) {
    return ModelFileError(absl::StrCat(source.path, ": a head has ", head_dim,
                                       " dimensions, must be an even number for RoPE"));
  }
  NG_RETURN_IF_ERROR(source.OptionalInt("rope.dimension_count", {head_dim, head_dim}).status());
  NG_ASSIGN_OR_RETURN(const std::optional<double> theta,
                      source.metadata.OptionalNumber(source.Key("rope.freq_base"), kTheta));
  RopeSpec rope = {.n_dims = head_dim, .pairing = RopePairing::kHalfSplit};
  rope.theta = theta.value_or(10000.0);
  // Of q and k, whatever the type of scaling.
  NG_RETURN_IF_ERROR(
      source.metadata.OptionalNumber(source.Key("rope.scaling.attn_factor"), {1.0, 1.0}).status());
  NG_RETURN_IF_ERROR(ReadRopeScaling(source, &rope.scaling));
  return rope;
}

// What the layers of an architecture have; read.
struct Parts {
  NormSpec norm = {};
  SelfAttentionSpec attention = {};
  FeedForwardSpec feed_forward = {};
};

// Layers that are all alike, and the head.
absl::StatusOr<ModelSpec> Assembled(const Source& source, Parts parts, ModelSpec spec) {
  NG_ASSIGN_OR_RETURN(parts.feed_forward.width,
                      source.LayersInt("feed_forward_length", kSize, spec.shape.n_layers));
  spec.head.norm = parts.norm;
  for (int i = 0; i < spec.shape.n_layers; ++i) {
    spec.AddLayer(PreNormLayer(parts.norm), parts.attention, parts.feed_forward);
  }
  return spec;
}

// llama: pre-norm RMSNorm, RoPE, grouped queries, a SwiGLU, biases where there are tensors of them.
// With `qkv_bias` or `qk_norm` it is qwen2 or qwen3.
absl::StatusOr<ModelSpec> ReadLlamaLike(const JsonFields& metadata, const std::string& path,
                                        bool qkv_bias, bool qk_norm) {
  NG_ASSIGN_OR_RETURN(const Source source, Source::Of(metadata, path));
  NG_ASSIGN_OR_RETURN(ModelSpec spec, ReadShape(source));
  NG_ASSIGN_OR_RETURN(const double eps,
                      metadata.Number(source.Key("attention.layer_norm_rms_epsilon"), kEps));
  NG_ASSIGN_OR_RETURN(const RopeSpec rope, ReadRope(source, spec.shape.head_dim));
  NG_ASSIGN_OR_RETURN(const std::optional<int64_t> window,
                      source.OptionalInt("attention.sliding_window", {0, kPositions.max}));
  Parts parts = {.norm = {.kind = NormKind::kRmsNorm, .eps = static_cast<float>(eps)},
                 .attention = AttentionOfShape(spec.shape)};
  parts.attention.rope = spec.IndexIn(&spec.ropes, rope);
  parts.attention.window = window.value_or(0);
  parts.attention.qkv_bias = qkv_bias;
  if (qk_norm) parts.attention.qk_norm = parts.norm;
  return Assembled(source, parts, std::move(spec));
}

absl::StatusOr<ModelSpec> ReadLlamaSpec(const JsonFields& metadata, const std::string& path) {
  return ReadLlamaLike(metadata, path, /*qkv_bias=*/false, /*qk_norm=*/false);
}
absl::StatusOr<ModelSpec> ReadQwen2Spec(const JsonFields& metadata, const std::string& path) {
  return ReadLlamaLike(metadata, path, /*qkv_bias=*/true, /*qk_norm=*/false);
}
absl::StatusOr<ModelSpec> ReadQwen3Spec(const JsonFields& metadata, const std::string& path) {
  return ReadLlamaLike(metadata, path, /*qkv_bias=*/false, /*qk_norm=*/true);
}

// gpt2: pre-norm LayerNorm, learned positions, GELU by tanh, all biases.
absl::StatusOr<ModelSpec> ReadGpt2Spec(const JsonFields& metadata, const std::string& path) {
  NG_ASSIGN_OR_RETURN(const Source source, Source::Of(metadata, path));
  NG_ASSIGN_OR_RETURN(ModelSpec spec, ReadShape(source));
  NG_ASSIGN_OR_RETURN(const double eps,
                      metadata.Number(source.Key("attention.layer_norm_epsilon"), kEps));
  spec.embedding.positions = true;
  Parts parts = {
      .norm = {.kind = NormKind::kLayerNorm, .eps = static_cast<float>(eps), .bias = true},
      .attention = AttentionOfShape(spec.shape),
      .feed_forward = {.activation = Activation::kGeluTanh, .gated = false, .bias = true}};
  parts.attention.qkv_bias = parts.attention.out_bias = true;
  return Assembled(source, parts, std::move(spec));
}

// Of llama and what is made like it; each model has the biases and norms that its spec says. In
// llama itself the two dimensions of a rotation lie side by side.
constexpr std::array<RoleName, 22> LlamaNames(StoredOrder order) {
  return {{
      {"token_embd.weight", TensorRole::kTokenEmbedding},
      {"output.weight", TensorRole::kHead},
      {"rope_freqs.weight", TensorRole::kRopeFactors},
      {"output_norm.weight", TensorRole::kFinalNorm},
      {"blk.{}.attn_norm.weight", TensorRole::kAttnNorm},
      {.name = "blk.{}.attn_q.weight", .role = TensorRole::kQ, .order = order},
      {.name = "blk.{}.attn_q.bias", .role = TensorRole::kQBias, .order = order},
      {.name = "blk.{}.attn_k.weight", .role = TensorRole::kK, .order = order},
      {.name = "blk.{}.attn_k.bias", .role = TensorRole::kKBias, .order = order},
      {"blk.{}.attn_v.weight", TensorRole::kV},
      {"blk.{}.attn_v.bias", TensorRole::kVBias},
      {"blk.{}.attn_q_norm.weight", TensorRole::kQNorm},
      {"blk.{}.attn_k_norm.weight", TensorRole::kKNorm},
      {"blk.{}.attn_output.weight", TensorRole::kAttnOut},
      {"blk.{}.attn_output.bias", TensorRole::kAttnOutBias},
      {"blk.{}.ffn_norm.weight", TensorRole::kMlpNorm},
      {"blk.{}.ffn_gate.weight", TensorRole::kMlpGate},
      {"blk.{}.ffn_gate.bias", TensorRole::kMlpGateBias},
      {"blk.{}.ffn_up.weight", TensorRole::kMlpUp},
      {"blk.{}.ffn_up.bias", TensorRole::kMlpUpBias},
      {"blk.{}.ffn_down.weight", TensorRole::kMlpDown},
      {"blk.{}.ffn_down.bias", TensorRole::kMlpDownBias},
  }};
}

constexpr auto kGgufLlamaNames = LlamaNames(StoredOrder::kPaired);
constexpr auto kQwenNames = LlamaNames(StoredOrder::kPlain);

constexpr RoleName kGgufGpt2Names[] = {
    {"token_embd.weight", TensorRole::kTokenEmbedding},
    {"position_embd.weight", TensorRole::kPositions},
    {"output.weight", TensorRole::kHead},
    {"output_norm.weight", TensorRole::kFinalNorm},
    {"output_norm.bias", TensorRole::kFinalNormBias},
    {"blk.{}.attn_norm.weight", TensorRole::kAttnNorm},
    {"blk.{}.attn_norm.bias", TensorRole::kAttnNormBias},
    {"blk.{}.attn_qkv.weight", TensorRole::kQkv},
    {"blk.{}.attn_qkv.bias", TensorRole::kQkvBias},
    {"blk.{}.attn_output.weight", TensorRole::kAttnOut},
    {"blk.{}.attn_output.bias", TensorRole::kAttnOutBias},
    {"blk.{}.ffn_norm.weight", TensorRole::kMlpNorm},
    {"blk.{}.ffn_norm.bias", TensorRole::kMlpNormBias},
    {"blk.{}.ffn_up.weight", TensorRole::kMlpUp},
    {"blk.{}.ffn_up.bias", TensorRole::kMlpUpBias},
    {"blk.{}.ffn_down.weight", TensorRole::kMlpDown},
    {"blk.{}.ffn_down.bias", TensorRole::kMlpDownBias},
};

constexpr Family kArchitectures[] = {
    {.model_type = "llama",
     .read_spec = ReadLlamaSpec,
     .layer_prefix = "blk.",
     .names = kGgufLlamaNames,
     .biases_optional = true},
    {"qwen2", ReadQwen2Spec, "blk.", kQwenNames},
    {.model_type = "qwen3",
     .read_spec = ReadQwen3Spec,
     .layer_prefix = "blk.",
     .names = kQwenNames,
     .biases_optional = true},
    {"gpt2", ReadGpt2Spec, "blk.", kGgufGpt2Names},
};

}  // namespace

absl::StatusOr<const Family*> FindGgufFamily(const JsonFields& metadata, const std::string& path) {
  NG_ASSIGN_OR_RETURN(const std::string architecture, metadata.Text(kArchitecture));
  std::vector<std::string> known;
  for (const Family& family : kArchitectures) {
    if (architecture == family.model_type) return &family;
    known.push_back(family.model_type);
  }
  return ModelFileError(absl::StrCat(path, ": key \"", kArchitecture,
                                     "\" = ", JsonExcerpt(architecture),
                                     ", must be one of: ", absl::StrJoin(known, ", ")));
}

}  // namespace ng
