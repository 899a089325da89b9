// What GGUF files call the tensors of all architectures.
#ifndef NG_CORE_MODEL_GGUF_GGUF_NAMES_H_
#define NG_CORE_MODEL_GGUF_GGUF_NAMES_H_

#include <array>

#include "core/model/families/family.h"

namespace ng {

// `order`: of the rows of q and of k. A model has one or the other of entries that hold the same
// weights: which, its file says.
constexpr auto GgufNames(StoredOrder order) {
  using enum TensorRole;
  return std::to_array<RoleName>({
      {"token_embd.weight", kTokenEmbedding},
      {"position_embd.weight", kPositions},
      {"token_embd_norm.weight", kEmbeddingNorm},
      {"token_embd_norm.bias", kEmbeddingNormBias},
      {"per_layer_token_embd.weight", kLayerEmbedding},
      {"per_layer_model_proj.weight", kLayerProjection},
      {"per_layer_proj_norm.weight", kLayerInputNorm},
      {"output.weight", kHead},
      {"output.bias", kHeadBias},
      {"rope_freqs.weight", kRopeFactors},
      {"output_norm.weight", kFinalNorm},
      {"output_norm.bias", kFinalNormBias},
      {"blk.{}.attn_norm.weight", kAttnNorm},
      {"blk.{}.attn_norm.bias", kAttnNormBias},
      {.name = "blk.{}.attn_qkv.weight", .role = kQkv, .order = order},
      {.name = "blk.{}.attn_qkv.bias", .role = kQkvBias, .order = order},
      {.name = "blk.{}.attn_q.weight", .role = kQ, .order = order},
      {.name = "blk.{}.attn_q.bias", .role = kQBias, .order = order},
      {"blk.{}.attn_q.weight", kQAndGate},
      {.name = "blk.{}.attn_k.weight", .role = kK, .order = order},
      {.name = "blk.{}.attn_k.bias", .role = kKBias, .order = order},
      {"blk.{}.attn_v.weight", kV},
      {"blk.{}.attn_v.bias", kVBias},
      {"blk.{}.attn_q_a.weight", kQDown},
      {"blk.{}.attn_q_a_norm.weight", kQDownNorm},
      {"blk.{}.attn_q_b.weight", kQUp},
      {"blk.{}.attn_kv_a_mqa.weight", kKvDown},
      {"blk.{}.attn_kv_a_norm.weight", kKvDownNorm},
      {"blk.{}.attn_kv_b.weight", kKvUp},
      {"blk.{}.attn_k_b.weight", kKUp},
      {"blk.{}.attn_v_b.weight", kVUp},
      {"blk.{}.attn_q_norm.weight", kQNorm},
      {"blk.{}.attn_k_norm.weight", kKNorm},
      {"blk.{}.attn_gate.weight", kAttnGate},
      {"blk.{}.attn_sub_norm.weight", kAttnInnerNorm},
      {"blk.{}.attn_output.weight", kAttnOut},
      {"blk.{}.attn_output.bias", kAttnOutBias},
      {"blk.{}.attn_sinks.weight", kSinks},
      {"blk.{}.ssm_in.weight", kStateIn},
      {"blk.{}.attn_qkv.weight", kStateConvIn},
      {"blk.{}.attn_gate.weight", kStateGate},
      {"blk.{}.ssm_beta.weight", kStateWrite},
      {"blk.{}.ssm_alpha.weight", kStateStep},
      {"blk.{}.ssm_in.weight", kStateGroups},
      {"blk.{}.ssm_ba.weight", kStateValues},
      {"blk.{}.ssm_conv1d.weight", kStateConv},
      {"blk.{}.ssm_conv1d.bias", kStateConvBias},
      {"blk.{}.ssm_a", kStateDecayLog},
      {"blk.{}.ssm_dt.bias", kStateStepBias},
      {"blk.{}.ssm_d", kStateSkip},
      {"blk.{}.ssm_norm.weight", kStateNorm},
      {"blk.{}.ssm_out.weight", kStateOut},
      {"blk.{}.post_attention_norm.weight", kAttnPostNorm},
      {"blk.{}.ffn_norm.weight", kMlpNorm},
      {"blk.{}.ffn_norm.bias", kMlpNormBias},
      {"blk.{}.ffn_up.weight", kMlpGateUp},
      {"blk.{}.ffn_gate.weight", kMlpGate},
      {"blk.{}.ffn_gate.bias", kMlpGateBias},
      {"blk.{}.ffn_up.weight", kMlpUp},
      {"blk.{}.ffn_up.bias", kMlpUpBias},
      {"blk.{}.ffn_act.alpha_p", kMlpAlphaP},
      {"blk.{}.ffn_act.alpha_n", kMlpAlphaN},
      {"blk.{}.ffn_act.beta", kMlpBeta},
      {"blk.{}.ffn_act.eps", kMlpEps},
      {"blk.{}.ffn_sub_norm.weight", kMlpInnerNorm},
      {"blk.{}.ffn_down.weight", kMlpDown},
      {"blk.{}.ffn_down.bias", kMlpDownBias},
      {"blk.{}.post_ffw_norm.weight", kMlpPostNorm},
      {"blk.{}.layer_output_scale.weight", kMlpFactor},
      {"blk.{}.ffn_gate_inp.weight", kRouter},
      {"blk.{}.ffn_gate_inp.bias", kRouterBias},
      {"blk.{}.exp_probs_b.bias", kSelectionBias},
      {"blk.{}.ffn_gate_shexp.weight", kSharedGate},
      {"blk.{}.ffn_up_shexp.weight", kSharedUp},
      {"blk.{}.ffn_down_shexp.weight", kSharedDown},
      {"blk.{}.ffn_gate_inp_shexp.weight", kSharedRouter},
      {"blk.{}.ffn_gate.{e}.weight", kExpertGate},
      {"blk.{}.ffn_up.{e}.weight", kExpertUp},
      {"blk.{}.ffn_down.{e}.weight", kExpertDown},
      {"blk.{}.ffn_gate_up_exps.weight", kExpertGateUp},
      {"blk.{}.ffn_gate_exps.weight", kExpertGate},
      {"blk.{}.ffn_gate_exps.bias", kExpertGateBias},
      {"blk.{}.ffn_up_exps.weight", kExpertUp},
      {"blk.{}.ffn_up_exps.bias", kExpertUpBias},
      {"blk.{}.ffn_down_exps.weight", kExpertDown},
      {"blk.{}.ffn_down_exps.bias", kExpertDownBias},
      {"blk.{}.ffn_down_exps.scale", kExpertScales},
      {"blk.{}.ffn_gate_inp.scale", kRouterNorm},
      {"blk.{}.ffn_norm_shexp.weight", kSharedNorm},
      {"blk.{}.post_ffw_norm_1.weight", kSharedPostNorm},
      {"blk.{}.post_ffw_norm_2.weight", kExpertsPostNorm},
      {"blk.{}.inp_gate.weight", kLayerInputGate},
      {"blk.{}.proj.weight", kLayerInputOut},
      {"blk.{}.post_norm.weight", kLayerInputPostNorm},
      {"blk.{}.layer_output_scale.weight", kLayerInputFactor},
  });
}
inline constexpr auto kGgufNames = GgufNames(StoredOrder::kPlain);
inline constexpr auto kGgufPairedNames = GgufNames(StoredOrder::kPaired);

// RoPE's factors within the positions that a model was first trained on, and beyond them.
inline constexpr char kShortFactors[] = "rope_factors_short.weight";
inline constexpr char kLongFactors[] = "rope_factors_long.weight";

// Norms that an architecture spells otherwise.
inline constexpr Renamed kOneNormForBoth[] = {{"ffn_norm", "attn_norm"}};
inline constexpr Renamed kSecondAttnNorm[] = {{".attn_norm.", ".attn_norm_2."},
                                              {"ffn_norm", "attn_norm"}};
inline constexpr Renamed kMlpNormBehindAttention[] = {{"ffn_norm", "post_attention_norm"}};
inline constexpr Renamed kShortConvolution[] = {{"ssm_in", "shortconv.in_proj"},
                                                {"ssm_conv1d", "shortconv.conv"},
                                                {"ssm_out", "shortconv.out_proj"},
                                                {"output_norm", "token_embd_norm"}};
// The feed-forward of a layer without experts is what all rows share in one with them.
inline constexpr Renamed kDenseIsShared[] = {{"_shexp", ""}, {"ffn_norm.", "pre_ffw_norm_2."}};
inline constexpr Renamed kPlainSelectionBias[] = {{"exp_probs_b.bias", "exp_probs_b"}};

}  // namespace ng

#endif  // NG_CORE_MODEL_GGUF_GGUF_NAMES_H_
