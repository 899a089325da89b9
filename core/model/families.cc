#include "core/model/families.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace ng {
namespace {

// Limits that no real model comes near, and whose products fit an int64.
constexpr Range<int64_t> kCount = {1, 1 << 16};
constexpr Range<int64_t> kSize = {1, 1 << 24};
constexpr Range<int64_t> kPositions = {1, std::numeric_limits<int32_t>::max()};
constexpr Range<double> kTheta = {1.0, 1e12};
constexpr Range<double> kEps = {0.0, 1.0};

// A switch of the format that the decoder has only one position of.
absl::Status Require(const JsonFields& config, const std::string& path, std::string_view key,
                     bool wanted) {
  NG_ASSIGN_OR_RETURN(const std::optional<bool> found, config.OptionalBool(key));
  if (found.value_or(wanted) == wanted) return absl::OkStatus();
  return ModelFileError(absl::StrCat(
      path, ": key \"", absl::string_view(key.data(), key.size()),
      wanted ? "\" = false, can run only with true" : "\" = true, can run only with false"));
}

// niels-gpt: pre-norm RMSNorm, interleaved RoPE, attention without biases, a SwiGLU with biases
// whose gate is fc_g, a head tied to the embedding.
absl::StatusOr<ModelSpec> ReadNielsSpec(const JsonFields& config, const std::string& path) {
  ModelSpec spec;
  NG_ASSIGN_OR_RETURN(spec.shape.vocab_size, config.Int("V", kSize));
  NG_ASSIGN_OR_RETURN(spec.shape.max_positions, config.Int("T", kPositions));
  NG_ASSIGN_OR_RETURN(spec.width, config.Int("C", kSize));
  NG_ASSIGN_OR_RETURN(const int64_t n_layers, config.Int("L", kCount));
  NG_ASSIGN_OR_RETURN(const int64_t n_heads, config.Int("H", {1, spec.width}));
  NG_ASSIGN_OR_RETURN(spec.ffn_width, config.Int("d_ff", kSize));
  NG_ASSIGN_OR_RETURN(spec.rope_theta, config.Number("rope_theta", kTheta));
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

constexpr RoleName kNielsNames[] = {
    {"tok_emb.weight", TensorRole::kTokenEmbedding},
    {"lm_head.weight", TensorRole::kHead},
    {"ln_f.weight", TensorRole::kFinalNorm},
    {"blocks.{}.ln1.weight", TensorRole::kAttnNorm},
    {"blocks.{}.attn.qkv.weight", TensorRole::kQkv},
    {"blocks.{}.attn.proj.weight", TensorRole::kAttnOut},
    {"blocks.{}.ln2.weight", TensorRole::kMlpNorm},
    {"blocks.{}.mlp.fc_g.weight", TensorRole::kMlpGate},
    {"blocks.{}.mlp.fc_g.bias", TensorRole::kMlpGateBias},
    {"blocks.{}.mlp.fc_a.weight", TensorRole::kMlpUp},
    {"blocks.{}.mlp.fc_a.bias", TensorRole::kMlpUpBias},
    {"blocks.{}.mlp.fc_out.weight", TensorRole::kMlpDown},
    {"blocks.{}.mlp.fc_out.bias", TensorRole::kMlpDownBias},
};

// The base of the rotations: in `rope_parameters` (transformers 5) or beside `rope_scaling` (4);
// 10000 where neither says, as the format has it. Frequencies scaled in any way are refused.
absl::StatusOr<double> ReadRopeTheta(const JsonFields& config, const std::string& path) {
  std::optional<double> theta;
  for (const std::string_view key : {"rope_parameters", "rope_scaling"}) {
    NG_ASSIGN_OR_RETURN(const std::optional<JsonFields> rope, config.OptionalObject(key));
    if (!rope) continue;
    const char* type_key = rope->Has("type") && !rope->Has("rope_type") ? "type" : "rope_type";
    NG_ASSIGN_OR_RETURN(const std::string type, rope->Text(type_key));
    if (type != "default") {
      return ModelFileError(absl::StrCat(path, ": key \"",
                                         absl::string_view(key.data(), key.size()), ".", type_key,
                                         "\" = \"", type, "\", can run only with \"default\""));
    }
    NG_ASSIGN_OR_RETURN(const std::optional<double> own,
                        rope->OptionalNumber("rope_theta", kTheta));
    if (own) theta = own;
  }
  if (theta) return *theta;
  NG_ASSIGN_OR_RETURN(theta, config.OptionalNumber("rope_theta", kTheta));
  return theta.value_or(10000.0);
}

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

// llama: pre-norm RMSNorm, half-split RoPE, grouped queries, a SwiGLU, no biases.
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
  NG_ASSIGN_OR_RETURN(spec.rope_theta, ReadRopeTheta(config, path));
  NG_ASSIGN_OR_RETURN(const std::string activation, config.Text("hidden_act"));
  if (activation != "silu") {
    return ModelFileError(absl::StrCat(path, ": key \"hidden_act\" = \"", activation,
                                       "\", can run only with \"silu\""));
  }
  NG_RETURN_IF_ERROR(Require(config, path, "attention_bias", false));
  NG_RETURN_IF_ERROR(Require(config, path, "mlp_bias", false));
  NG_ASSIGN_OR_RETURN(const std::optional<bool> tied, config.OptionalBool("tie_word_embeddings"));
  spec.tied_head = tied.value_or(false);
  return spec;
}

constexpr RoleName kLlamaNames[] = {
    {"model.embed_tokens.weight", TensorRole::kTokenEmbedding},
    {"lm_head.weight", TensorRole::kHead},
    {"model.norm.weight", TensorRole::kFinalNorm},
    {"model.layers.{}.input_layernorm.weight", TensorRole::kAttnNorm},
    {"model.layers.{}.self_attn.q_proj.weight", TensorRole::kQ},
    {"model.layers.{}.self_attn.k_proj.weight", TensorRole::kK},
    {"model.layers.{}.self_attn.v_proj.weight", TensorRole::kV},
    {"model.layers.{}.self_attn.o_proj.weight", TensorRole::kAttnOut},
    {"model.layers.{}.post_attention_layernorm.weight", TensorRole::kMlpNorm},
    {"model.layers.{}.mlp.gate_proj.weight", TensorRole::kMlpGate},
    {"model.layers.{}.mlp.up_proj.weight", TensorRole::kMlpUp},
    {"model.layers.{}.mlp.down_proj.weight", TensorRole::kMlpDown},
};

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

// nanogpt: all biases or none, GELU by erf, a head tied to the embedding.
absl::StatusOr<ModelSpec> ReadNanoGptSpec(const JsonFields& config, const std::string& path) {
  ModelSpec spec;
  NG_RETURN_IF_ERROR(ReadGptShape(config, path, "block_size", &spec));
  NG_ASSIGN_OR_RETURN(const bool bias, config.Bool("bias"));
  SetBiases(bias, &spec);
  spec.norm_eps = 1e-5F;
  spec.activation = Activation::kGeluErf;
  return spec;
}

// GPT-2's Conv1D holds its matrices [inputs, outputs].
constexpr std::array<RoleName, 17> GptNames(bool conv1d) {
  return {{
      {"transformer.wte.weight", TensorRole::kTokenEmbedding},
      {"transformer.wpe.weight", TensorRole::kPositions},
      {"lm_head.weight", TensorRole::kHead},
      {"transformer.ln_f.weight", TensorRole::kFinalNorm},
      {"transformer.ln_f.bias", TensorRole::kFinalNormBias},
      {"transformer.h.{}.ln_1.weight", TensorRole::kAttnNorm},
      {"transformer.h.{}.ln_1.bias", TensorRole::kAttnNormBias},
      {"transformer.h.{}.attn.c_attn.weight", TensorRole::kQkv, conv1d},
      {"transformer.h.{}.attn.c_attn.bias", TensorRole::kQkvBias},
      {"transformer.h.{}.attn.c_proj.weight", TensorRole::kAttnOut, conv1d},
      {"transformer.h.{}.attn.c_proj.bias", TensorRole::kAttnOutBias},
      {"transformer.h.{}.ln_2.weight", TensorRole::kMlpNorm},
      {"transformer.h.{}.ln_2.bias", TensorRole::kMlpNormBias},
      {"transformer.h.{}.mlp.c_fc.weight", TensorRole::kMlpUp, conv1d},
      {"transformer.h.{}.mlp.c_fc.bias", TensorRole::kMlpUpBias},
      {"transformer.h.{}.mlp.c_proj.weight", TensorRole::kMlpDown, conv1d},
      {"transformer.h.{}.mlp.c_proj.bias", TensorRole::kMlpDownBias},
  }};
}

constexpr auto kNanoGptNames = GptNames(/*conv1d=*/false);
constexpr auto kGpt2Names = GptNames(/*conv1d=*/true);

absl::StatusOr<Activation> ReadGpt2Activation(const JsonFields& config, const std::string& path) {
  NG_ASSIGN_OR_RETURN(const std::string name, config.Text("activation_function"));
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  if (name == "gelu") return Activation::kGeluErf;
  return ModelFileError(absl::StrCat(path, ": key \"activation_function\" = \"", name,
                                     "\", must be one of: gelu_new, gelu_pytorch_tanh, gelu"));
}

// gpt2: all biases, a head that is tied unless config.json says otherwise.
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

constexpr Family kFamilies[] = {
    {"niels-gpt", ReadNielsSpec, "blocks.", kNielsNames},
    {"llama", ReadLlamaSpec, "model.layers.", kLlamaNames},
    {"nanogpt", ReadNanoGptSpec, "transformer.h.", kNanoGptNames},
    {"gpt2", ReadGpt2Spec, "transformer.h.", kGpt2Names, "transformer."},
};

using Shape = std::vector<int64_t>;

// Of what only some models have.
Shape If(bool has, Shape shape) { return has ? std::move(shape) : Shape{}; }

}  // namespace

std::vector<int64_t> RoleShape(TensorRole role, const ModelSpec& spec) {
  switch (role) {
    case TensorRole::kTokenEmbedding:
    case TensorRole::kHead:
      return {spec.shape.vocab_size, spec.width};
    case TensorRole::kPositions:
      return If(spec.position == PositionKind::kLearned, {spec.shape.max_positions, spec.width});
    case TensorRole::kFinalNorm:
    case TensorRole::kAttnNorm:
    case TensorRole::kMlpNorm:
      return {spec.width};
    case TensorRole::kFinalNormBias:
    case TensorRole::kAttnNormBias:
    case TensorRole::kMlpNormBias:
      return If(spec.norm_bias, {spec.width});
    case TensorRole::kQkv:
      return {spec.qkv_width(), spec.width};
    case TensorRole::kQ:
      return {spec.q_width(), spec.width};
    case TensorRole::kK:
    case TensorRole::kV:
      return {spec.kv_width(), spec.width};
    case TensorRole::kQkvBias:
      return If(spec.qkv_bias, {spec.qkv_width()});
    case TensorRole::kAttnOut:
      return {spec.width, spec.q_width()};
    case TensorRole::kAttnOutBias:
      return If(spec.attn_out_bias, {spec.width});
    case TensorRole::kMlpGate:
      return If(spec.gated(), {spec.ffn_width, spec.width});
    case TensorRole::kMlpGateBias:
      return If(spec.gated() && spec.mlp_bias, {spec.ffn_width});
    case TensorRole::kMlpUp:
      return {spec.ffn_width, spec.width};
    case TensorRole::kMlpUpBias:
      return If(spec.mlp_bias, {spec.ffn_width});
    case TensorRole::kMlpDown:
      return {spec.width, spec.ffn_width};
    case TensorRole::kMlpDownBias:
      return If(spec.mlp_bias, {spec.width});
  }
  return {};
}

std::vector<int64_t> StoredShape(const RoleName& entry, const ModelSpec& spec) {
  Shape shape = RoleShape(entry.role, spec);
  if (entry.transposed) std::ranges::reverse(shape);
  return shape;
}

std::string_view Family::ShortName(std::string_view name) const {
  const std::string_view prefix = optional_prefix;
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

absl::StatusOr<const Family*> FindFamily(const JsonFields& config, const std::string& path) {
  NG_ASSIGN_OR_RETURN(const std::string model_type, config.Text("model_type"));
  std::vector<std::string> known;
  for (const Family& family : kFamilies) {
    if (model_type == family.model_type) return &family;
    known.push_back(family.model_type);
  }
  return ModelFileError(absl::StrCat(path, ": key \"model_type\" = \"", model_type,
                                     "\", must be one of: ", absl::StrJoin(known, ", ")));
}

void ForEachTensor(
    const Family& family, const ModelSpec& spec,
    absl::FunctionRef<void(const RoleName& entry, int layer, const std::string& name)> visit) {
  const auto visit_group = [&](int layer) {
    for (const RoleName& entry : family.names) {
      if (absl::StrContains(entry.name, "{}") != (layer >= 0)) continue;
      if (RoleShape(entry.role, spec).empty()) continue;
      visit(entry, layer, absl::StrReplaceAll(entry.name, {{"{}", absl::StrCat(layer)}}));
    }
  };
  for (int layer = -1; layer < spec.shape.n_layers; ++layer) visit_group(layer);
}

}  // namespace ng
