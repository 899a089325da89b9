#include "core/model/families.h"

#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/model/family_configs.h"
#include "core/model/llama_configs.h"

namespace ng {
namespace {

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

// Of llama and what is made like it; each model has the biases and norms that its spec says.
struct MlpNames {
  const char* up;
  const char* up_bias;
  const char* down;
  const char* down_bias;
};
constexpr MlpNames kLlamaMlp = {
    "model.layers.{}.mlp.up_proj.weight", "model.layers.{}.mlp.up_proj.bias",
    "model.layers.{}.mlp.down_proj.weight", "model.layers.{}.mlp.down_proj.bias"};
constexpr MlpNames kStarcoder2Mlp = {
    "model.layers.{}.mlp.c_fc.weight", "model.layers.{}.mlp.c_fc.bias",
    "model.layers.{}.mlp.c_proj.weight", "model.layers.{}.mlp.c_proj.bias"};

constexpr std::array<RoleName, 24> LlamaNames(const MlpNames& mlp) {
  return {{
      {"model.embed_tokens.weight", TensorRole::kTokenEmbedding},
      {"lm_head.weight", TensorRole::kHead},
      {"model.norm.weight", TensorRole::kFinalNorm},
      {"model.norm.bias", TensorRole::kFinalNormBias},
      {"model.layers.{}.input_layernorm.weight", TensorRole::kAttnNorm},
      {"model.layers.{}.input_layernorm.bias", TensorRole::kAttnNormBias},
      {"model.layers.{}.self_attn.q_proj.weight", TensorRole::kQ},
      {"model.layers.{}.self_attn.q_proj.bias", TensorRole::kQBias},
      {"model.layers.{}.self_attn.k_proj.weight", TensorRole::kK},
      {"model.layers.{}.self_attn.k_proj.bias", TensorRole::kKBias},
      {"model.layers.{}.self_attn.v_proj.weight", TensorRole::kV},
      {"model.layers.{}.self_attn.v_proj.bias", TensorRole::kVBias},
      {"model.layers.{}.self_attn.q_norm.weight", TensorRole::kQNorm},
      {"model.layers.{}.self_attn.k_norm.weight", TensorRole::kKNorm},
      {"model.layers.{}.self_attn.o_proj.weight", TensorRole::kAttnOut},
      {"model.layers.{}.self_attn.o_proj.bias", TensorRole::kAttnOutBias},
      {"model.layers.{}.post_attention_layernorm.weight", TensorRole::kMlpNorm},
      {"model.layers.{}.post_attention_layernorm.bias", TensorRole::kMlpNormBias},
      {"model.layers.{}.mlp.gate_proj.weight", TensorRole::kMlpGate},
      {"model.layers.{}.mlp.gate_proj.bias", TensorRole::kMlpGateBias},
      {mlp.up, TensorRole::kMlpUp},
      {mlp.up_bias, TensorRole::kMlpUpBias},
      {mlp.down, TensorRole::kMlpDown},
      {mlp.down_bias, TensorRole::kMlpDownBias},
  }};
}

constexpr auto kLlamaNames = LlamaNames(kLlamaMlp);
constexpr auto kStarcoder2Names = LlamaNames(kStarcoder2Mlp);

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

// Of all layers one tensor [n_layers, 6, inputs, outputs].
constexpr RoleName kPostLnNames[] = {
    {"w_emb", TensorRole::kTokenEmbedding},
    {"pos_embed", TensorRole::kPositions},
    {"w_head", TensorRole::kHead, /*transposed=*/true},
    {"blocks_weights", TensorRole::kQ, /*transposed=*/true, /*paired=*/false, 0, 6},
    {"blocks_weights", TensorRole::kK, /*transposed=*/true, /*paired=*/false, 1, 6},
    {"blocks_weights", TensorRole::kV, /*transposed=*/true, /*paired=*/false, 2, 6},
    {"blocks_weights", TensorRole::kAttnOut, /*transposed=*/true, /*paired=*/false, 3, 6},
    {"blocks_weights", TensorRole::kMlpUp, /*transposed=*/true, /*paired=*/false, 4, 6},
    {"blocks_weights", TensorRole::kMlpDown, /*transposed=*/true, /*paired=*/false, 5, 6},
};

constexpr Family LlamaFamily(const char* model_type, decltype(Family::read_spec) read_spec,
                             std::span<const RoleName> names = kLlamaNames) {
  return {.model_type = model_type,
          .read_spec = read_spec,
          .layer_prefix = "model.layers.",
          .names = names,
          .unties_head = true};
}

// A nanoGPT that torch.compile has been over is saved with _orig_mod. before every name.
constexpr Family kFamilies[] = {
    {"niels-gpt", ReadNielsSpec, "blocks.", kNielsNames},
    LlamaFamily("llama", ReadLlamaRow<kLlamaRow>),
    LlamaFamily("mistral", ReadLlamaRow<kMistralRow>),
    LlamaFamily("ministral", ReadLlamaRow<kMinistralRow>),
    LlamaFamily("qwen2", ReadLlamaRow<kQwen2Row>),
    LlamaFamily("qwen3", ReadLlamaRow<kQwen3Row>),
    LlamaFamily("seed_oss", ReadLlamaRow<kSeedOssRow>),
    LlamaFamily("internlm3", ReadLlamaRow<kInternLm3Row>),
    LlamaFamily("helium", ReadLlamaRow<kHeliumRow>),
    LlamaFamily("ernie4_5", ReadLlamaRow<kErnie45Row>),
    LlamaFamily("cwm", ReadLlamaRow<kCwmRow>),
    LlamaFamily("olmo", ReadLlamaRow<kOlmoRow>),
    LlamaFamily("starcoder2", ReadLlamaRow<kStarcoder2Row>, kStarcoder2Names),
    {"nanogpt", ReadNanoGptSpec, "transformer.h.", kNanoGptNames, "_orig_mod."},
    {.model_type = "gpt2",
     .read_spec = ReadGpt2Spec,
     .layer_prefix = "transformer.h.",
     .names = kGpt2Names,
     .optional_prefix = "transformer.",
     .unties_head = true},
    {"postln", ReadPostLnSpec, "", kPostLnNames, "", ReadPostLnSizes},
};

}  // namespace

bool RoleName::per_layer() const { return n_slots > 0 || absl::StrContains(name, "{}"); }

std::string LayerName(const RoleName& entry, int layer) {
  return absl::StrReplaceAll(entry.name, {{"{}", absl::StrCat(layer)}});
}

std::vector<int64_t> StoredShape(const RoleName& entry, const ModelSpec& spec, int layer) {
  std::vector<int64_t> shape = RoleShape(entry.role, spec, layer);
  if (entry.transposed) std::ranges::reverse(shape);
  if (entry.n_slots > 0) shape.insert(shape.begin(), {spec.shape.n_layers, entry.n_slots});
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
  return ModelFileError(absl::StrCat(path, ": key \"model_type\" = ", JsonExcerpt(model_type),
                                     ", must be one of: ", absl::StrJoin(known, ", ")));
}

void ForEachTensor(
    const Family& family, const ModelSpec& spec,
    absl::FunctionRef<void(const RoleName& entry, int layer, const std::string& name)> visit) {
  const auto visit_group = [&](int layer) {
    for (const RoleName& entry : family.names) {
      if (entry.per_layer() != (layer >= 0)) continue;
      if (RoleShape(entry.role, spec, layer).empty()) continue;
      visit(entry, layer, LayerName(entry, layer));
    }
  };
  for (int layer = -1; layer < spec.shape.n_layers; ++layer) visit_group(layer);
}

}  // namespace ng
