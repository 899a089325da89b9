// What the families call their tensors: lists of names, and for families that differ in a few the
// parts that they spell otherwise or do not have.
#ifndef NG_CORE_MODEL_FAMILIES_FAMILY_NAMES_H_
#define NG_CORE_MODEL_FAMILIES_FAMILY_NAMES_H_

#include <array>
#include <string_view>

#include "core/model/families/family.h"

namespace ng {

inline constexpr std::string_view kMxfp4Ending = "_blocks";  // of the names of MXFP4

inline constexpr RoleName kNielsNames[] = {
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
inline constexpr RoleName kLlamaNames[] = {
    {"model.embed_tokens.weight", TensorRole::kTokenEmbedding},
    {"model.embed_positions.weight", TensorRole::kPositions},
    {"model.embed_norm.weight", TensorRole::kEmbeddingNorm},
    {"model.embed_norm.bias", TensorRole::kEmbeddingNormBias},
    {"model.embed_tokens_per_layer.weight", TensorRole::kLayerEmbedding},
    {"model.per_layer_model_projection.weight", TensorRole::kLayerProjection},
    {"model.per_layer_projection_norm.weight", TensorRole::kLayerInputNorm},
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
    {"model.layers.{}.self_attn.q_a_proj.weight", TensorRole::kQDown},
    {"model.layers.{}.self_attn.q_a_layernorm.weight", TensorRole::kQDownNorm},
    {"model.layers.{}.self_attn.q_b_proj.weight", TensorRole::kQUp},
    {"model.layers.{}.self_attn.kv_a_proj_with_mqa.weight", TensorRole::kKvDown},
    {"model.layers.{}.self_attn.kv_a_layernorm.weight", TensorRole::kKvDownNorm},
    {"model.layers.{}.self_attn.kv_b_proj.weight", TensorRole::kKvUp},
    {"model.layers.{}.self_attn.q_proj.weight", TensorRole::kQAndGate},
    {"model.layers.{}.self_attn.k_proj.weight", TensorRole::kK},
    {"model.layers.{}.self_attn.k_proj.bias", TensorRole::kKBias},
    {"model.layers.{}.self_attn.v_proj.weight", TensorRole::kV},
    {"model.layers.{}.self_attn.v_proj.bias", TensorRole::kVBias},
    {"model.layers.{}.self_attn.q_norm.weight", TensorRole::kQNorm},
    {"model.layers.{}.self_attn.q_norm.bias", TensorRole::kQNormBias},
    {"model.layers.{}.self_attn.k_norm.weight", TensorRole::kKNorm},
    {"model.layers.{}.self_attn.k_norm.bias", TensorRole::kKNormBias},
    {"model.layers.{}.self_attn.gate_proj.weight", TensorRole::kAttnGate},
    {"model.layers.{}.self_attn.attn_sub_norm.weight", TensorRole::kAttnInnerNorm},
    {"model.layers.{}.self_attn.o_proj.weight", TensorRole::kAttnOut},
    {"model.layers.{}.self_attn.o_proj.bias", TensorRole::kAttnOutBias},
    {"model.layers.{}.self_attn.sinks", TensorRole::kSinks},
    {"model.layers.{}.linear_attn.in_proj.weight", TensorRole::kStateIn},
    {"model.layers.{}.linear_attn.in_proj.bias", TensorRole::kStateInBias},
    {"model.layers.{}.linear_attn.in_proj_qkv.weight", TensorRole::kStateConvIn},
    {"model.layers.{}.linear_attn.in_proj_z.weight", TensorRole::kStateGate},
    {"model.layers.{}.linear_attn.in_proj_b.weight", TensorRole::kStateWrite},
    {"model.layers.{}.linear_attn.in_proj_a.weight", TensorRole::kStateStep},
    {"model.layers.{}.linear_attn.in_proj_qkvz.weight", TensorRole::kStateGroups},
    {"model.layers.{}.linear_attn.in_proj_ba.weight", TensorRole::kStateValues},
    {"model.layers.{}.linear_attn.conv1d.weight", TensorRole::kStateConv},
    {"model.layers.{}.linear_attn.conv1d.bias", TensorRole::kStateConvBias},
    {"model.layers.{}.linear_attn.A_log", TensorRole::kStateDecayLog},
    {"model.layers.{}.linear_attn.dt_bias", TensorRole::kStateStepBias},
    {"model.layers.{}.linear_attn.D", TensorRole::kStateSkip},
    {"model.layers.{}.linear_attn.norm.weight", TensorRole::kStateNorm},
    {"model.layers.{}.linear_attn.out_proj.weight", TensorRole::kStateOut},
    {"model.layers.{}.linear_attn.out_proj.bias", TensorRole::kStateOutBias},
    {"model.layers.{}.post_self_attn_layernorm.weight", TensorRole::kAttnPostNorm},
    {"model.layers.{}.post_self_attn_layernorm.bias", TensorRole::kAttnPostNormBias},
    {"model.layers.{}.post_attention_layernorm.weight", TensorRole::kMlpNorm},
    {"model.layers.{}.post_attention_layernorm.bias", TensorRole::kMlpNormBias},
    {"model.layers.{}.layer_scalar", TensorRole::kMlpFactor},
    {"model.layers.{}.mlp.gate_up_proj.weight", TensorRole::kMlpGateUp},
    {"model.layers.{}.mlp.gate_proj.weight", TensorRole::kMlpGate},
    {"model.layers.{}.mlp.gate_proj.bias", TensorRole::kMlpGateBias},
    {"model.layers.{}.mlp.up_proj.weight", TensorRole::kMlpUp},
    {"model.layers.{}.mlp.up_proj.bias", TensorRole::kMlpUpBias},
    {"model.layers.{}.mlp.ffn_sub_norm.weight", TensorRole::kMlpInnerNorm},
    {"model.layers.{}.mlp.act_fn.alpha_p", TensorRole::kMlpAlphaP},
    {"model.layers.{}.mlp.act_fn.alpha_n", TensorRole::kMlpAlphaN},
    {"model.layers.{}.mlp.act_fn.beta", TensorRole::kMlpBeta},
    {"model.layers.{}.mlp.act_fn.eps", TensorRole::kMlpEps},
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
    {"model.layers.{}.router.per_expert_scale", TensorRole::kExpertScales},
    {"model.layers.{}.router.scale", TensorRole::kRouterNorm},
    {"model.layers.{}.pre_feedforward_layernorm.weight", TensorRole::kSharedNorm},
    {"model.layers.{}.post_feedforward_layernorm_1.weight", TensorRole::kSharedPostNorm},
    {"model.layers.{}.post_feedforward_layernorm_2.weight", TensorRole::kExpertsPostNorm},
    {"model.layers.{}.per_layer_input_gate.weight", TensorRole::kLayerInputGate},
    {"model.layers.{}.per_layer_projection.weight", TensorRole::kLayerInputOut},
    {"model.layers.{}.post_per_layer_input_norm.weight", TensorRole::kLayerInputPostNorm},
    {"model.layers.{}.layer_scalar", TensorRole::kLayerInputFactor},
};

// With experts as [inputs, outputs] where they are no MXFP4.
inline constexpr auto ExpertsTransposed(bool gates_and_ups_in_turn) {
  auto names = std::to_array(kLlamaNames);
  for (RoleName& entry : names) {
    using enum TensorRole;
    const bool matrix = entry.role == kExpertGateUp || entry.role == kExpertDown;
    entry.transposed = matrix && !std::string_view(entry.name).ends_with(kMxfp4Ending);
    const bool turns = entry.role == kExpertGateUp || entry.role == kExpertGateUpBias;
    if (turns && gates_and_ups_in_turn) entry.order = StoredOrder::kTurns;
  }
  return names;
}
inline constexpr auto kGptOssNames = ExpertsTransposed(true);
inline constexpr auto kLlama4Names = ExpertsTransposed(false);

inline constexpr TensorRole kApart[] = {
    TensorRole::kQkv,          TensorRole::kQkvBias,          TensorRole::kMlpGateUp,
    TensorRole::kSharedGateUp, TensorRole::kSelectionBiasRow, TensorRole::kQAndGate};
inline constexpr TensorRole kQkvFused[] = {
    TensorRole::kQ,     TensorRole::kK,     TensorRole::kV,        TensorRole::kQBias,
    TensorRole::kKBias, TensorRole::kVBias, TensorRole::kMlpGateUp};
inline constexpr TensorRole kGateUpFused[] = {TensorRole::kQkv, TensorRole::kQkvBias,
                                              TensorRole::kMlpGate, TensorRole::kMlpUp};
inline constexpr TensorRole kBothFused[] = {TensorRole::kQ, TensorRole::kK, TensorRole::kV,
                                            TensorRole::kMlpGate, TensorRole::kMlpUp};

inline constexpr TensorRole kErnieMoeApart[] = {TensorRole::kQkv, TensorRole::kQkvBias,
                                                TensorRole::kMlpGateUp, TensorRole::kSharedGateUp,
                                                TensorRole::kSelectionBias};
inline constexpr TensorRole kSharedFused[] = {TensorRole::kQkv, TensorRole::kQkvBias,
                                              TensorRole::kSharedGate, TensorRole::kSharedUp};

// The heads of q with their gates in one tensor; of the state all parts apart, or in two tensors.
inline constexpr TensorRole kQwen35Apart[] = {
    TensorRole::kQkv,          TensorRole::kQkvBias,          TensorRole::kMlpGateUp,
    TensorRole::kSharedGateUp, TensorRole::kSelectionBiasRow, TensorRole::kQ,
    TensorRole::kAttnGate,     TensorRole::kStateGroups,      TensorRole::kStateValues};
inline constexpr TensorRole kQwenNextFused[] = {
    TensorRole::kQkv,          TensorRole::kQkvBias,          TensorRole::kMlpGateUp,
    TensorRole::kSharedGateUp, TensorRole::kSelectionBiasRow, TensorRole::kQ,
    TensorRole::kAttnGate,     TensorRole::kStateConvIn,      TensorRole::kStateGate,
    TensorRole::kStateWrite,   TensorRole::kStateStep};

inline constexpr Renamed kMixtral[] = {{"mlp.gate", "block_sparse_moe.gate"},
                                       {"mlp.experts", "block_sparse_moe.experts"},
                                       {"mlp.gate.e_score", "block_sparse_moe.e_score"},
                                       {"gate_proj", "w1"},
                                       {"up_proj", "w3"},
                                       {"down_proj", "w2"}};
inline constexpr Renamed kQwen2Moe[] = {{"shared_experts", "shared_expert"}};
inline constexpr Renamed kGraniteMoe[] = {
    {"mlp.gate.", "block_sparse_moe.router.layer."},
    {"mlp.shared_experts.gate_up_proj", "shared_mlp.input_linear"},
    {"mlp.shared_experts.down_proj", "shared_mlp.output_linear"},
    {"mlp.experts.gate_up_proj", "block_sparse_moe.input_linear.weight"},
    {"mlp.experts.down_proj", "block_sparse_moe.output_linear.weight"}};
inline constexpr Renamed kExaoneMoe[] = {{"mlp.gate.e_score", "mlp.e_score"}};
inline constexpr Renamed kHunYuanMoe[] = {{"q_norm", "query_layernorm"},
                                          {"k_norm", "key_layernorm"},
                                          {"mlp.gate.", "mlp.gate.wg."},
                                          {"shared_experts", "shared_mlp"}};
inline constexpr Renamed kHyV3[] = {{"mlp.gate.e_score_correction_bias", "mlp.expert_bias"},
                                    {"mlp.gate.", "mlp.router.gate."},
                                    {"shared_experts", "shared_mlp"}};
inline constexpr Renamed kGptOss[] = {{"mlp.gate.", "mlp.router."}};
inline constexpr Renamed kStarcoder2[] = {{"mlp.up_proj", "mlp.c_fc"},
                                          {"mlp.down_proj", "mlp.c_proj"}};
inline constexpr Renamed kHunYuan[] = {{"q_norm", "query_layernorm"}, {"k_norm", "key_layernorm"}};
inline constexpr Renamed kHyperClovaX[] = {{"post_self_attn_layernorm", "post_norm1"},
                                           {"post_mlp_layernorm", "post_norm2"}};
inline constexpr Renamed kOlmo2[] = {{"post_self_attn_layernorm", "post_attention_layernorm"},
                                     {"post_mlp_layernorm", "post_feedforward_layernorm"}};
inline constexpr Renamed kGemma2[] = {{"post_attention_layernorm", "pre_feedforward_layernorm"},
                                      {"post_self_attn_layernorm", "post_attention_layernorm"},
                                      {"post_mlp_layernorm", "post_feedforward_layernorm"}};
inline constexpr Renamed kGemma4Moe[] = {
    {"post_attention_layernorm", "pre_feedforward_layernorm_2"},
    {"post_self_attn_layernorm", "post_attention_layernorm"},
    {"post_mlp_layernorm", "post_feedforward_layernorm"},
    {"mlp.gate.", "router.proj."},
    {"mlp.experts.", "experts."},
    {"mlp.shared_experts.", "mlp."}};
// One norm for both blocks.
inline constexpr Renamed kCohere[] = {{"post_attention_layernorm", "input_layernorm"}};
inline constexpr Renamed kPersimmon[] = {{"model.norm", "model.final_layernorm"},
                                         {"qkv_proj", "query_key_value"},
                                         {"o_proj", "dense"},
                                         {"up_proj", "dense_h_to_4h"},
                                         {"down_proj", "dense_4h_to_h"},
                                         {"q_norm", "q_layernorm"},
                                         {"k_norm", "k_layernorm"}};
inline constexpr Renamed kPhi[] = {{"post_attention_layernorm", "input_layernorm"},
                                   {"model.norm", "model.final_layernorm"},
                                   {"o_proj", "dense"},
                                   {"up_proj", "fc1"},
                                   {"down_proj", "fc2"},
                                   {"q_norm", "q_layernorm"},
                                   {"k_norm", "k_layernorm"}};
inline constexpr Renamed kGptNeoX[] = {{"lm_head", "embed_out"},
                                       {"model.embed_tokens", "gpt_neox.embed_in"},
                                       {"model.norm", "gpt_neox.final_layer_norm"},
                                       {"model.layers", "gpt_neox.layers"},
                                       {"self_attn.qkv_proj", "attention.query_key_value"},
                                       {"self_attn.o_proj", "attention.dense"},
                                       {"up_proj", "dense_h_to_4h"},
                                       {"down_proj", "dense_4h_to_h"}};

inline constexpr Renamed kGptJ[] = {{"model.embed_tokens", "transformer.wte"},
                                    {"model.norm", "transformer.ln_f"},
                                    {"model.layers", "transformer.h"},
                                    {"input_layernorm", "ln_1"},
                                    {"post_attention_layernorm", "ln_1"},
                                    {"self_attn.o_proj", "attn.out_proj"},
                                    {"self_attn", "attn"},
                                    {"up_proj", "fc_in"},
                                    {"down_proj", "fc_out"}};
inline constexpr Renamed kGptBigCode[] = {{"model.embed_tokens", "transformer.wte"},
                                          {"model.embed_positions", "transformer.wpe"},
                                          {"model.norm", "transformer.ln_f"},
                                          {"model.layers", "transformer.h"},
                                          {"input_layernorm", "ln_1"},
                                          {"post_attention_layernorm", "ln_2"},
                                          {"self_attn.qkv_proj", "attn.c_attn"},
                                          {"self_attn.o_proj", "attn.c_proj"},
                                          {"up_proj", "c_fc"},
                                          {"down_proj", "c_proj"}};
inline constexpr Renamed kOpenAiGpt[] = {{"wte", "tokens_embed"}, {"wpe", "positions_embed"}};
inline constexpr Renamed kBloom[] = {{"model.embed_tokens", "transformer.word_embeddings"},
                                     {"model.embed_norm", "transformer.word_embeddings_layernorm"},
                                     {"model.norm", "transformer.ln_f"},
                                     {"model.layers", "transformer.h"},
                                     {"self_attn.qkv_proj", "self_attention.query_key_value"},
                                     {"self_attn.o_proj", "self_attention.dense"},
                                     {"up_proj", "dense_h_to_4h"},
                                     {"down_proj", "dense_4h_to_h"}};
inline constexpr Renamed kOpt[] = {{"model.embed_tokens", "model.decoder.embed_tokens"},
                                   {"model.embed_positions", "model.decoder.embed_positions"},
                                   {"model.norm", "model.decoder.final_layer_norm"},
                                   {"model.layers", "model.decoder.layers"},
                                   {"input_layernorm", "self_attn_layer_norm"},
                                   {"post_attention_layernorm", "final_layer_norm"},
                                   {"o_proj", "out_proj"},
                                   {"mlp.up_proj", "fc1"},
                                   {"mlp.down_proj", "fc2"}};
inline constexpr Renamed kBioGpt[] = {{"lm_head", "output_projection"},
                                      {"model.embed_tokens", "biogpt.embed_tokens"},
                                      {"model.embed_positions", "biogpt.embed_positions"},
                                      {"model.norm", "biogpt.layer_norm"},
                                      {"model.layers", "biogpt.layers"},
                                      {"input_layernorm", "self_attn_layer_norm"},
                                      {"post_attention_layernorm", "final_layer_norm"},
                                      {"o_proj", "out_proj"},
                                      {"mlp.up_proj", "fc1"},
                                      {"mlp.down_proj", "fc2"}};

inline constexpr Renamed kLfm2[] = {
    {"model.norm", "model.embedding_norm"},
    {"input_layernorm", "operator_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"o_proj", "out_proj"},
    {"q_norm", "q_layernorm"},
    {"k_norm", "k_layernorm"},
    {"linear_attn.in_proj", "conv.in_proj"},
    {"linear_attn.conv1d", "conv.conv"},
    {"linear_attn.out_proj", "conv.out_proj"},
    {"mlp.gate.e_score_correction_bias", "feed_forward.expert_bias"},
    {"mlp.gate.", "feed_forward.gate."},
    {"mlp.", "feed_forward."},
    {"gate_proj", "w1"},
    {"up_proj", "w3"},
    {"down_proj", "w2"}};
inline constexpr Renamed kGraniteHybridNames[] = {
    {"linear_attn", "mamba"},
    {"mlp.gate.", "block_sparse_moe.router.layer."},
    {"mlp.shared_experts.gate_up_proj", "shared_mlp.input_linear"},
    {"mlp.shared_experts.down_proj", "shared_mlp.output_linear"},
    {"mlp.experts.gate_up_proj", "block_sparse_moe.input_linear.weight"},
    {"mlp.experts.down_proj", "block_sparse_moe.output_linear.weight"},
    {"mlp.gate_up_proj", "shared_mlp.input_linear"},
    {"mlp.down_proj", "shared_mlp.output_linear"}};
// A layer has one block, and one norm.
inline constexpr Renamed kNemotronNames[] = {{"model.embed_tokens", "backbone.embeddings"},
                                             {"model.norm", "backbone.norm_f"},
                                             {"model.layers", "backbone.layers"},
                                             {"input_layernorm", "norm"},
                                             {"post_attention_layernorm", "norm"},
                                             {"self_attn", "mixer"},
                                             {"linear_attn", "mixer"},
                                             {"mlp", "mixer"}};

inline constexpr Renamed kXglm[] = {{"model.norm", "model.layer_norm"},
                                    {"input_layernorm", "self_attn_layer_norm"},
                                    {"post_attention_layernorm", "final_layer_norm"},
                                    {"o_proj", "out_proj"},
                                    {"mlp.up_proj", "fc1"},
                                    {"mlp.down_proj", "fc2"}};
inline constexpr Renamed kGptNeo[] = {{"model.embed_tokens", "transformer.wte"},
                                      {"model.embed_positions", "transformer.wpe"},
                                      {"model.norm", "transformer.ln_f"},
                                      {"model.layers", "transformer.h"},
                                      {"input_layernorm", "ln_1"},
                                      {"post_attention_layernorm", "ln_2"},
                                      {"self_attn.o_proj", "attn.attention.out_proj"},
                                      {"self_attn", "attn.attention"},
                                      {"up_proj", "c_fc"},
                                      {"down_proj", "c_proj"}};
inline constexpr Renamed kMpt[] = {
    {"model.embed_tokens", "transformer.wte"}, {"model.norm", "transformer.norm_f"},
    {"model.layers", "transformer.blocks"},    {"input_layernorm", "norm_1"},
    {"post_attention_layernorm", "norm_2"},    {"self_attn.qkv_proj", "attn.Wqkv"},
    {"self_attn.o_proj", "attn.out_proj"},     {"mlp.", "ffn."}};
inline constexpr std::array<Renamed, 9> FalconNames(const char* attn_norm, const char* mlp_norm) {
  return {{{"model.embed_tokens", "transformer.word_embeddings"},
           {"model.norm", "transformer.ln_f"},
           {"model.layers", "transformer.h"},
           {"input_layernorm", attn_norm},
           {"post_attention_layernorm", mlp_norm},
           {"self_attn.qkv_proj", "self_attention.query_key_value"},
           {"self_attn.o_proj", "self_attention.dense"},
           {"up_proj", "dense_h_to_4h"},
           {"down_proj", "dense_4h_to_h"}}};
}
inline constexpr auto kFalcon = FalconNames("input_layernorm", "post_attention_layernorm");
inline constexpr auto kFalconOneNorm = FalconNames("input_layernorm", "input_layernorm");
inline constexpr auto kFalconTwoNorms = FalconNames("ln_attn", "ln_mlp");
inline constexpr Renamed kNanoChat[] = {{"up_proj", "fc1"}, {"down_proj", "fc2"}};
inline constexpr Renamed kApertus[] = {{"input_layernorm", "attention_layernorm"},
                                       {"post_attention_layernorm", "feedforward_layernorm"}};
inline constexpr Renamed kAfmoe[] = {{"post_attention_layernorm", "pre_mlp_layernorm"},
                                     {"post_self_attn_layernorm", "post_attention_layernorm"},
                                     {"mlp.gate.e_score_correction_bias", "mlp.expert_bias"},
                                     {"mlp.gate.", "mlp.router.gate."}};
inline constexpr Renamed kLlama4[] = {{"mlp.", "feed_forward."},
                                      {"mlp.gate.", "feed_forward.router."},
                                      {"mlp.shared_experts", "feed_forward.shared_expert"}};

// GPT-2's Conv1D holds its matrices [inputs, outputs]. `stream`: the norms are behind the blocks.
inline constexpr std::array<RoleName, 17> GptNames(bool conv1d, bool stream = false) {
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

inline constexpr auto kNanoGptNames = GptNames(/*conv1d=*/false);
inline constexpr auto kGpt2Names = GptNames(/*conv1d=*/true);
inline constexpr auto kOpenAiGptNames = GptNames(/*conv1d=*/true, /*stream=*/true);

// Of all layers one tensor [n_layers, 6, inputs, outputs].
inline constexpr RoleName kPostLnNames[] = {
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

}  // namespace ng

#endif  // NG_CORE_MODEL_FAMILIES_FAMILY_NAMES_H_
