#include "core/model/families.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/model/expert_rows.h"
#include "core/model/family_configs.h"
#include "core/model/layer_norm_rows.h"
#include "core/model/llama_rows.h"

namespace ng {
namespace {

constexpr std::string_view kBlocks = "_blocks";  // how names of MXFP4 end

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

// Of llama and what is made like it; each model has the biases and norms that its spec says, and
// each family one way or the other to hold q, k and v, or gate and up.
constexpr RoleName kLlamaNames[] = {
    {"model.embed_tokens.weight", TensorRole::kTokenEmbedding},
    {"model.embed_positions.weight", TensorRole::kPositions},
    {"model.embed_norm.weight", TensorRole::kEmbeddingNorm},
    {"model.embed_norm.bias", TensorRole::kEmbeddingNormBias},
    {"lm_head.weight", TensorRole::kHead},
    {"lm_head.bias", TensorRole::kHeadBias},
    {"model.norm.weight", TensorRole::kFinalNorm},
    {"model.norm.bias", TensorRole::kFinalNormBias},
    {"model.layers.{}.input_layernorm.weight", TensorRole::kAttnNorm},
    {"model.layers.{}.input_layernorm.bias", TensorRole::kAttnNormBias},
    {"model.layers.{}.self_attn.qkv_proj.weight", TensorRole::kQkv},
    {"model.layers.{}.self_attn.qkv_proj.bias", TensorRole::kQkvBias},
    {"model.layers.{}.self_attn.q_proj.weight", TensorRole::kQ},
    {"model.layers.{}.self_attn.q_proj.bias", TensorRole::kQBias},
    {"model.layers.{}.self_attn.k_proj.weight", TensorRole::kK},
    {"model.layers.{}.self_attn.k_proj.bias", TensorRole::kKBias},
    {"model.layers.{}.self_attn.v_proj.weight", TensorRole::kV},
    {"model.layers.{}.self_attn.v_proj.bias", TensorRole::kVBias},
    {"model.layers.{}.self_attn.q_norm.weight", TensorRole::kQNorm},
    {"model.layers.{}.self_attn.q_norm.bias", TensorRole::kQNormBias},
    {"model.layers.{}.self_attn.k_norm.weight", TensorRole::kKNorm},
    {"model.layers.{}.self_attn.k_norm.bias", TensorRole::kKNormBias},
    {"model.layers.{}.self_attn.o_proj.weight", TensorRole::kAttnOut},
    {"model.layers.{}.self_attn.o_proj.bias", TensorRole::kAttnOutBias},
    {"model.layers.{}.self_attn.sinks", TensorRole::kSinks},
    {"model.layers.{}.post_self_attn_layernorm.weight", TensorRole::kAttnPostNorm},
    {"model.layers.{}.post_self_attn_layernorm.bias", TensorRole::kAttnPostNormBias},
    {"model.layers.{}.post_attention_layernorm.weight", TensorRole::kMlpNorm},
    {"model.layers.{}.post_attention_layernorm.bias", TensorRole::kMlpNormBias},
    {"model.layers.{}.mlp.gate_up_proj.weight", TensorRole::kMlpGateUp},
    {"model.layers.{}.mlp.gate_proj.weight", TensorRole::kMlpGate},
    {"model.layers.{}.mlp.gate_proj.bias", TensorRole::kMlpGateBias},
    {"model.layers.{}.mlp.up_proj.weight", TensorRole::kMlpUp},
    {"model.layers.{}.mlp.up_proj.bias", TensorRole::kMlpUpBias},
    {"model.layers.{}.mlp.down_proj.weight", TensorRole::kMlpDown},
    {"model.layers.{}.mlp.down_proj.bias", TensorRole::kMlpDownBias},
    {"model.layers.{}.post_mlp_layernorm.weight", TensorRole::kMlpPostNorm},
    {"model.layers.{}.post_mlp_layernorm.bias", TensorRole::kMlpPostNormBias},
    {"model.layers.{}.mlp.gate.weight", TensorRole::kRouter},
    {"model.layers.{}.mlp.gate.bias", TensorRole::kRouterBias},
    {"model.layers.{}.mlp.gate.e_score_correction_bias", TensorRole::kSelectionBias},
    {"model.layers.{}.mlp.moe_statics.e_score_correction_bias", TensorRole::kSelectionBiasRow},
    {"model.layers.{}.mlp.shared_experts.gate_up_proj.weight", TensorRole::kSharedGateUp},
    {"model.layers.{}.mlp.shared_experts.gate_proj.weight", TensorRole::kSharedGate},
    {"model.layers.{}.mlp.shared_experts.up_proj.weight", TensorRole::kSharedUp},
    {"model.layers.{}.mlp.shared_experts.down_proj.weight", TensorRole::kSharedDown},
    {"model.layers.{}.mlp.shared_expert_gate.weight", TensorRole::kSharedRouter},
    {"model.layers.{}.mlp.experts.{e}.gate_proj.weight", TensorRole::kExpertGate},
    {"model.layers.{}.mlp.experts.{e}.up_proj.weight", TensorRole::kExpertUp},
    {"model.layers.{}.mlp.experts.{e}.down_proj.weight", TensorRole::kExpertDown},
    {"model.layers.{}.mlp.experts.gate_up_proj", TensorRole::kExpertGateUp},
    {"model.layers.{}.mlp.experts.gate_up_proj_blocks", TensorRole::kExpertGateUp},
    {"model.layers.{}.mlp.experts.gate_up_proj_bias", TensorRole::kExpertGateUpBias},
    {"model.layers.{}.mlp.experts.down_proj", TensorRole::kExpertDown},
    {"model.layers.{}.mlp.experts.down_proj_blocks", TensorRole::kExpertDown},
    {"model.layers.{}.mlp.experts.down_proj_bias", TensorRole::kExpertDownBias},
};

// With experts as [inputs, outputs] where they are no MXFP4; their gates and ups take turns.
constexpr auto kGptOssNames = [] {
  auto names = std::to_array(kLlamaNames);
  for (RoleName& entry : names) {
    using enum TensorRole;
    const bool matrix = entry.role == kExpertGateUp || entry.role == kExpertDown;
    entry.transposed = matrix && !std::string_view(entry.name).ends_with(kBlocks);
    const bool turns = entry.role == kExpertGateUp || entry.role == kExpertGateUpBias;
    if (turns) entry.order = StoredOrder::kTurns;
  }
  return names;
}();

constexpr TensorRole kApart[] = {TensorRole::kQkv, TensorRole::kQkvBias, TensorRole::kMlpGateUp,
                                 TensorRole::kSharedGateUp, TensorRole::kSelectionBiasRow};
constexpr TensorRole kQkvFused[] = {TensorRole::kQ,        TensorRole::kK,     TensorRole::kV,
                                    TensorRole::kQBias,    TensorRole::kKBias, TensorRole::kVBias,
                                    TensorRole::kMlpGateUp};
constexpr TensorRole kGateUpFused[] = {TensorRole::kQkv, TensorRole::kQkvBias, TensorRole::kMlpGate,
                                       TensorRole::kMlpUp};
constexpr TensorRole kBothFused[] = {TensorRole::kQ, TensorRole::kK, TensorRole::kV,
                                     TensorRole::kMlpGate, TensorRole::kMlpUp};

constexpr TensorRole kErnieMoeApart[] = {TensorRole::kQkv, TensorRole::kQkvBias,
                                         TensorRole::kMlpGateUp, TensorRole::kSharedGateUp,
                                         TensorRole::kSelectionBias};
constexpr TensorRole kSharedFused[] = {TensorRole::kQkv, TensorRole::kQkvBias,
                                       TensorRole::kSharedGate, TensorRole::kSharedUp};

constexpr Renamed kMixtral[] = {{"mlp.gate", "block_sparse_moe.gate"},
                                {"mlp.experts", "block_sparse_moe.experts"},
                                {"mlp.gate.e_score", "block_sparse_moe.e_score"},
                                {"gate_proj", "w1"},
                                {"up_proj", "w3"},
                                {"down_proj", "w2"}};
constexpr Renamed kQwen2Moe[] = {{"shared_experts", "shared_expert"}};
constexpr Renamed kGraniteMoe[] = {
    {"mlp.gate.", "block_sparse_moe.router.layer."},
    {"mlp.shared_experts.gate_up_proj", "shared_mlp.input_linear"},
    {"mlp.shared_experts.down_proj", "shared_mlp.output_linear"},
    {"mlp.experts.gate_up_proj", "block_sparse_moe.input_linear.weight"},
    {"mlp.experts.down_proj", "block_sparse_moe.output_linear.weight"}};
constexpr Renamed kExaoneMoe[] = {{"mlp.gate.e_score", "mlp.e_score"}};
constexpr Renamed kHunYuanMoe[] = {{"q_norm", "query_layernorm"},
                                   {"k_norm", "key_layernorm"},
                                   {"mlp.gate.", "mlp.gate.wg."},
                                   {"shared_experts", "shared_mlp"}};
constexpr Renamed kHyV3[] = {{"mlp.gate.e_score_correction_bias", "mlp.expert_bias"},
                             {"mlp.gate.", "mlp.router.gate."},
                             {"shared_experts", "shared_mlp"}};
constexpr Renamed kGptOss[] = {{"mlp.gate.", "mlp.router."}};
constexpr Renamed kStarcoder2[] = {{"mlp.up_proj", "mlp.c_fc"}, {"mlp.down_proj", "mlp.c_proj"}};
constexpr Renamed kHunYuan[] = {{"q_norm", "query_layernorm"}, {"k_norm", "key_layernorm"}};
constexpr Renamed kHyperClovaX[] = {{"post_self_attn_layernorm", "post_norm1"},
                                    {"post_mlp_layernorm", "post_norm2"}};
constexpr Renamed kOlmo2[] = {{"post_self_attn_layernorm", "post_attention_layernorm"},
                              {"post_mlp_layernorm", "post_feedforward_layernorm"}};
constexpr Renamed kGemma2[] = {{"post_attention_layernorm", "pre_feedforward_layernorm"},
                               {"post_self_attn_layernorm", "post_attention_layernorm"},
                               {"post_mlp_layernorm", "post_feedforward_layernorm"}};
// One norm for both blocks.
constexpr Renamed kCohere[] = {{"post_attention_layernorm", "input_layernorm"}};
constexpr Renamed kPersimmon[] = {{"model.norm", "model.final_layernorm"},
                                  {"qkv_proj", "query_key_value"},
                                  {"o_proj", "dense"},
                                  {"up_proj", "dense_h_to_4h"},
                                  {"down_proj", "dense_4h_to_h"},
                                  {"q_norm", "q_layernorm"},
                                  {"k_norm", "k_layernorm"}};
constexpr Renamed kPhi[] = {{"post_attention_layernorm", "input_layernorm"},
                            {"model.norm", "model.final_layernorm"},
                            {"o_proj", "dense"},
                            {"up_proj", "fc1"},
                            {"down_proj", "fc2"},
                            {"q_norm", "q_layernorm"},
                            {"k_norm", "k_layernorm"}};
constexpr Renamed kGptNeoX[] = {{"lm_head", "embed_out"},
                                {"model.embed_tokens", "gpt_neox.embed_in"},
                                {"model.norm", "gpt_neox.final_layer_norm"},
                                {"model.layers", "gpt_neox.layers"},
                                {"self_attn.qkv_proj", "attention.query_key_value"},
                                {"self_attn.o_proj", "attention.dense"},
                                {"up_proj", "dense_h_to_4h"},
                                {"down_proj", "dense_4h_to_h"}};

constexpr Renamed kGptJ[] = {{"model.embed_tokens", "transformer.wte"},
                             {"model.norm", "transformer.ln_f"},
                             {"model.layers", "transformer.h"},
                             {"input_layernorm", "ln_1"},
                             {"post_attention_layernorm", "ln_1"},
                             {"self_attn.o_proj", "attn.out_proj"},
                             {"self_attn", "attn"},
                             {"up_proj", "fc_in"},
                             {"down_proj", "fc_out"}};
constexpr Renamed kGptBigCode[] = {{"model.embed_tokens", "transformer.wte"},
                                   {"model.embed_positions", "transformer.wpe"},
                                   {"model.norm", "transformer.ln_f"},
                                   {"model.layers", "transformer.h"},
                                   {"input_layernorm", "ln_1"},
                                   {"post_attention_layernorm", "ln_2"},
                                   {"self_attn.qkv_proj", "attn.c_attn"},
                                   {"self_attn.o_proj", "attn.c_proj"},
                                   {"up_proj", "c_fc"},
                                   {"down_proj", "c_proj"}};
constexpr Renamed kOpenAiGpt[] = {{"wte", "tokens_embed"}, {"wpe", "positions_embed"}};
constexpr Renamed kBloom[] = {{"model.embed_tokens", "transformer.word_embeddings"},
                              {"model.embed_norm", "transformer.word_embeddings_layernorm"},
                              {"model.norm", "transformer.ln_f"},
                              {"model.layers", "transformer.h"},
                              {"self_attn.qkv_proj", "self_attention.query_key_value"},
                              {"self_attn.o_proj", "self_attention.dense"},
                              {"up_proj", "dense_h_to_4h"},
                              {"down_proj", "dense_4h_to_h"}};
constexpr Renamed kOpt[] = {{"model.embed_tokens", "model.decoder.embed_tokens"},
                            {"model.embed_positions", "model.decoder.embed_positions"},
                            {"model.norm", "model.decoder.final_layer_norm"},
                            {"model.layers", "model.decoder.layers"},
                            {"input_layernorm", "self_attn_layer_norm"},
                            {"post_attention_layernorm", "final_layer_norm"},
                            {"o_proj", "out_proj"},
                            {"mlp.up_proj", "fc1"},
                            {"mlp.down_proj", "fc2"}};
constexpr Renamed kBioGpt[] = {{"lm_head", "output_projection"},
                               {"model.embed_tokens", "biogpt.embed_tokens"},
                               {"model.embed_positions", "biogpt.embed_positions"},
                               {"model.norm", "biogpt.layer_norm"},
                               {"model.layers", "biogpt.layers"},
                               {"input_layernorm", "self_attn_layer_norm"},
                               {"post_attention_layernorm", "final_layer_norm"},
                               {"o_proj", "out_proj"},
                               {"mlp.up_proj", "fc1"},
                               {"mlp.down_proj", "fc2"}};

// GPT-2's Conv1D holds its matrices [inputs, outputs]. `stream`: the norms are behind the blocks.
constexpr std::array<RoleName, 17> GptNames(bool conv1d, bool stream = false) {
  using enum TensorRole;
  return {{
      {"transformer.wte.weight", TensorRole::kTokenEmbedding},
      {"transformer.wpe.weight", TensorRole::kPositions},
      {"lm_head.weight", TensorRole::kHead},
      {"transformer.ln_f.weight", TensorRole::kFinalNorm},
      {"transformer.ln_f.bias", TensorRole::kFinalNormBias},
      {"transformer.h.{}.ln_1.weight", stream ? kAttnPostNorm : kAttnNorm},
      {"transformer.h.{}.ln_1.bias", stream ? kAttnPostNormBias : kAttnNormBias},
      {"transformer.h.{}.attn.c_attn.weight", TensorRole::kQkv, conv1d},
      {"transformer.h.{}.attn.c_attn.bias", TensorRole::kQkvBias},
      {"transformer.h.{}.attn.c_proj.weight", TensorRole::kAttnOut, conv1d},
      {"transformer.h.{}.attn.c_proj.bias", TensorRole::kAttnOutBias},
      {"transformer.h.{}.ln_2.weight", stream ? kMlpPostNorm : kMlpNorm},
      {"transformer.h.{}.ln_2.bias", stream ? kMlpPostNormBias : kMlpNormBias},
      {"transformer.h.{}.mlp.c_fc.weight", TensorRole::kMlpUp, conv1d},
      {"transformer.h.{}.mlp.c_fc.bias", TensorRole::kMlpUpBias},
      {"transformer.h.{}.mlp.c_proj.weight", TensorRole::kMlpDown, conv1d},
      {"transformer.h.{}.mlp.c_proj.bias", TensorRole::kMlpDownBias},
  }};
}

constexpr auto kNanoGptNames = GptNames(/*conv1d=*/false);
constexpr auto kGpt2Names = GptNames(/*conv1d=*/true);
constexpr auto kOpenAiGptNames = GptNames(/*conv1d=*/true, /*stream=*/true);

// Of all layers one tensor [n_layers, 6, inputs, outputs].
constexpr RoleName kPostLnNames[] = {
    {"w_emb", TensorRole::kTokenEmbedding},
    {"pos_embed", TensorRole::kPositions},
    {"w_head", TensorRole::kHead, /*transposed=*/true},
    {"blocks_weights", TensorRole::kQ, /*transposed=*/true, StoredOrder::kPlain, 0, 6},
    {"blocks_weights", TensorRole::kK, /*transposed=*/true, StoredOrder::kPlain, 1, 6},
    {"blocks_weights", TensorRole::kV, /*transposed=*/true, StoredOrder::kPlain, 2, 6},
    {"blocks_weights", TensorRole::kAttnOut, /*transposed=*/true, StoredOrder::kPlain, 3, 6},
    {"blocks_weights", TensorRole::kMlpUp, /*transposed=*/true, StoredOrder::kPlain, 4, 6},
    {"blocks_weights", TensorRole::kMlpDown, /*transposed=*/true, StoredOrder::kPlain, 5, 6},
};

constexpr Family LlamaFamily(const char* model_type, decltype(Family::read_spec) read_spec,
                             std::span<const Renamed> renamed = {},
                             std::span<const TensorRole> without = kApart) {
  return {.model_type = model_type,
          .read_spec = read_spec,
          .layer_prefix = "model.layers.",
          .names = kLlamaNames,
          .unties_head = true,
          .renamed = renamed,
          .without = without};
}

// With q, k and v of each group of heads together in one tensor.
constexpr Family GroupedFamily(const char* model_type, decltype(Family::read_spec) read_spec,
                               const char* layer_prefix, std::span<const Renamed> renamed,
                               StoredOrder order = StoredOrder::kGroups) {
  Family family = LlamaFamily(model_type, read_spec, renamed, kQkvFused);
  family.layer_prefix = layer_prefix;
  family.qkv_order = order;
  return family;
}

constexpr Family Stacked(Family family) {
  family.experts = ExpertTensors::kStacked;
  return family;
}

constexpr Family WithFurtherLayers(Family family) {
  family.n_further_layers = "num_nextn_predict_layers";
  return family;
}

constexpr Family With(Family family, const char* layer_prefix) {
  family.layer_prefix = layer_prefix;
  return family;
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
    LlamaFamily("starcoder2", ReadLlamaRow<kStarcoder2Row>, kStarcoder2),
    LlamaFamily("arcee", ReadLlamaRow<kArceeRow>),
    LlamaFamily("hunyuan_v1_dense", ReadLlamaRow<kHunYuanRow>, kHunYuan),
    LlamaFamily("smollm3", ReadLlamaRow<kSmolLm3Row>),
    LlamaFamily("granite", ReadLlamaRow<kGraniteRow>),
    LlamaFamily("hyperclovax", ReadLlamaRow<kHyperClovaXRow>, kHyperClovaX),
    LlamaFamily("olmo2", ReadLlamaRow<kOlmo2Row>, kOlmo2),
    LlamaFamily("olmo3", ReadLlamaRow<kOlmo3Row>, kOlmo2),
    LlamaFamily("exaone4", ReadLlamaRow<kExaone4Row>, kOlmo2),
    LlamaFamily("glm", ReadLlamaRow<kGlmRow>, {}, kGateUpFused),
    LlamaFamily("glm4", ReadLlamaRow<kGlm4Row>, {}, kGateUpFused),
    LlamaFamily("gemma", ReadLlamaRow<kGemmaRow>),
    LlamaFamily("gemma2", ReadLlamaRow<kGemma2Row>, kGemma2),
    LlamaFamily("gemma3_text", ReadLlamaRow<kGemma3Row>, kGemma2),
    LlamaFamily("vaultgemma", ReadLlamaRow<kVaultGemmaRow>, kGemma2),
    LlamaFamily("phi3", ReadLlamaRow<kPhi3Row>, {}, kBothFused),
    LlamaFamily("cohere", ReadLlamaRow<kCohereRow>, kCohere),
    LlamaFamily("cohere2", ReadLlamaRow<kCohere2Row>, kCohere),
    LlamaFamily("stablelm", ReadLlamaRow<kStableLmRow>),
    LlamaFamily("nemotron", ReadLlamaRow<kNemotronRow>),
    LlamaFamily("jais2", ReadLlamaRow<kJais2Row>),
    LlamaFamily("phi", ReadLlamaRow<kPhiRow>, kPhi),
    GroupedFamily("persimmon", ReadLlamaRow<kPersimmonRow>, "model.layers.", kPersimmon),
    GroupedFamily("gpt_neox", ReadLlamaRow<kGptNeoXRow>, "gpt_neox.layers.", kGptNeoX),
    GroupedFamily("gpt_bigcode", ReadLlamaRow<kGptBigCodeRow>, "transformer.h.", kGptBigCode),
    GroupedFamily("bloom", ReadLlamaRow<kBloomRow>, "transformer.h.", kBloom),
    GroupedFamily("codegen", ReadLlamaRow<kCodeGenRow>, "transformer.h.", kGptJ,
                  StoredOrder::kQuarters),
    With(LlamaFamily("gptj", ReadLlamaRow<kGptJRow>, kGptJ), "transformer.h."),
    With(LlamaFamily("opt", ReadLlamaRow<kOptRow>, kOpt), "model.decoder.layers."),
    With(LlamaFamily("biogpt", ReadLlamaRow<kBioGptRow>, kBioGpt), "biogpt.layers."),
    LlamaFamily("mixtral", ReadLlamaRow<kMixtralRow>, kMixtral),
    LlamaFamily("qwen2_moe", ReadLlamaRow<kQwen2MoeRow>, kQwen2Moe),
    LlamaFamily("qwen3_moe", ReadLlamaRow<kQwen3MoeRow>),
    LlamaFamily("olmoe", ReadLlamaRow<kOlmoeRow>),
    LlamaFamily("flex_olmo", ReadLlamaRow<kFlexOlmoRow>, kOlmo2),
    WithFurtherLayers(LlamaFamily("glm4_moe", ReadLlamaRow<kGlm4MoeRow>)),
    LlamaFamily("dots1", ReadLlamaRow<kDots1Row>),
    LlamaFamily("solar_open", ReadLlamaRow<kSolarOpenRow>),
    LlamaFamily("exaone_moe", ReadLlamaRow<kExaoneMoeRow>, kExaoneMoe),
    LlamaFamily("ernie4_5_moe", ReadLlamaRow<kErnieMoeRow>, {}, kErnieMoeApart),
    LlamaFamily("hunyuan_v1_moe", ReadLlamaRow<kHunYuanMoeRow>, kHunYuanMoe),
    LlamaFamily("minimax_m2", ReadLlamaRow<kMiniMaxRow>, kMixtral),
    LlamaFamily("hy_v3", ReadLlamaRow<kHyV3Row>, kHyV3),
    Stacked(LlamaFamily("granitemoe", ReadLlamaRow<kGraniteMoeRow>, kGraniteMoe)),
    Stacked(LlamaFamily("granitemoeshared", ReadLlamaRow<kGraniteSharedRow>, kGraniteMoe,
                        kSharedFused)),
    {.model_type = "gpt_oss",
     .read_spec = ReadLlamaRow<kGptOssRow>,
     .layer_prefix = "model.layers.",
     .names = kGptOssNames,
     .unties_head = true,
     .renamed = kGptOss,
     .without = kApart,
     .experts = ExpertTensors::kStacked},
    {.model_type = "openai-gpt",
     .read_spec = ReadLlamaRow<kOpenAiGptRow>,
     .layer_prefix = "transformer.h.",
     .names = kOpenAiGptNames,
     .unties_head = true,
     .renamed = kOpenAiGpt},
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
bool RoleName::stacked() const { return IsOfExpert(role) && !absl::StrContains(name, "{e}"); }

bool RoleName::IsIn(ExpertTensors experts) const {
  if (!IsOfExpert(role)) return true;
  if (!stacked()) return experts == ExpertTensors::kEach;
  if (std::string_view(name).ends_with(kBlocks)) return experts == ExpertTensors::kBlocks;
  return experts == ExpertTensors::kStacked ||
         (experts == ExpertTensors::kBlocks && !IsMatrix(role));
}

std::string Family::NameOf(const RoleName& entry, const TensorSite& at) const {
  std::vector<std::pair<absl::string_view, std::string>> changes = {
      {"{}", absl::StrCat(at.layer)}, {"{e}", absl::StrCat(at.expert)}};
  for (const Renamed& change : renamed) changes.emplace_back(change.from, change.to);
  return absl::StrReplaceAll(entry.name, changes);
}

std::vector<int64_t> StoredShape(const RoleName& entry, const ModelSpec& spec, int layer) {
  std::vector<int64_t> shape = RoleShape(entry.role, spec, layer);
  if (entry.transposed) std::ranges::reverse(shape);
  if (entry.n_slots > 0) shape.insert(shape.begin(), {spec.shape.n_layers, entry.n_slots});
  if (entry.stacked()) shape.insert(shape.begin(), ExpertsOf(spec, layer));
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
    const Family& family, const ModelSpec& spec, ExpertTensors experts,
    absl::FunctionRef<void(const RoleName& entry, const TensorSite& at, const std::string& name)>
        visit) {
  const auto visit_entry = [&](const RoleName& entry, const TensorSite& at) {
    visit(entry, at, family.NameOf(entry, at));
  };
  const auto visit_group = [&](int layer) {
    for (const RoleName& entry : family.names) {
      if (entry.per_layer() != (layer >= 0)) continue;
      if (std::ranges::count(family.without, entry.role) > 0) continue;
      if (RoleShape(entry.role, spec, layer).empty()) continue;
      if (!entry.IsIn(experts)) continue;
      if (!IsOfExpert(entry.role)) {
        visit_entry(entry, {layer});
        continue;
      }
      for (int i = 0; i < ExpertsOf(spec, layer); ++i) visit_entry(entry, {layer, i});
    }
  };
  for (int layer = -1; layer < spec.shape.n_layers; ++layer) visit_group(layer);
}

ExpertTensors ExpertTensorsIn(const TensorSource& tensors, const Family& family,
                              const ModelSpec& spec) {
  const auto any = [&](ExpertTensors experts) {
    bool found = false;
    ForEachTensor(family, spec, experts,
                  [&](const RoleName& entry, const TensorSite&, const std::string& name) {
                    const bool of_expert = IsOfExpert(entry.role) && IsMatrix(entry.role);
                    found = found || (of_expert && tensors.Find(name) != nullptr);
                  });
    return found;
  };
  for (const ExpertTensors experts :
       {family.experts, ExpertTensors::kEach, ExpertTensors::kStacked, ExpertTensors::kBlocks}) {
    if (any(experts)) return experts;
  }
  return family.experts;
}

}  // namespace ng
