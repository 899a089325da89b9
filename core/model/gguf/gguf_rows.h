// The architectures of GGUF files as rows (llama_configs.h). Each is made of the row that its
// family has for config.json: what models consist of is the same, and only the keys are GGUF's, and
// what an absent one means is what llama.cpp takes for it. Keys stand here without the name of the
// architecture that goes before them.
#ifndef NG_CORE_MODEL_GGUF_GGUF_ROWS_H_
#define NG_CORE_MODEL_GGUF_GGUF_ROWS_H_

#include <string_view>

#include "core/model/families/expert_rows.h"
#include "core/model/families/layer_norm_rows.h"
#include "core/model/families/llama_rows.h"
#include "core/model/families/state_rows.h"
#include "core/model/gguf/gguf_states.h"

namespace ng {

inline constexpr LlamaKeys kGgufKeys = {.width = {"embedding_length"},
                                        .ffn_width = {"feed_forward_length"},
                                        .n_layers = {"block_count"},
                                        .n_heads = {"attention.head_count"},
                                        .max_positions = {"context_length"}};
inline constexpr char kGgufWindow[] = "attention.sliding_window";
inline constexpr char kGgufPattern[] = "attention.sliding_window_pattern";

// A key where the row has one for the same.
constexpr const char* InPlaceOf(const char* key, const char* gguf_key) {
  return std::string_view(key).empty() ? "" : gguf_key;
}

// paired: q and k are stored for rotations of neighbours (StoredOrder::kPaired), so whole heads
// turn. Biases, a head of its own, and norms of q and k that a family may have or not are there
// where their tensors are.
constexpr LlamaRow Gguf(LlamaRow row, bool paired = false) {
  const bool layer_norm = row.norm == NormKind::kLayerNorm;
  row.keys = kGgufKeys;
  row.n_kv_heads_key = "attention.head_count_kv";
  row.n_kv_heads = row.head_dim = 0;
  row.head_dim_key = "attention.key_length";
  row.grouped = true;
  row.shares_width = row.null_head_dim = row.heads_in_quarters = row.scaled_by_default = false;
  row.multi_query = row.quantization = row.activation_key = "";
  row.position_offset = 0;
  row.theta = row.sliding_theta = 10000.0;
  row.rope_part = paired ? 0.0 : 1.0;
  row.rope_keys = {.theta = "rope.freq_base", .n_dims = "rope.dimension_count"};
  row.sliding_theta_key = "rope.freq_base_swa";
  row.eps_key = layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
  row.norm_offset = 0.0F;
  row.norms_key = {.absent = true};
  row.qk_norm = {.absent = row.qk_norm.absent};
  row.qkv_bias = row.attn_out_bias = row.mlp_bias = {};
  row.biases_agree = false;
  row.width_scales_embedding.key = "";
  row.embedding_multiplier = InPlaceOf(row.embedding_multiplier, "embedding_scale");
  row.residual_multiplier = InPlaceOf(row.residual_multiplier, "residual_scale");
  row.attention_multiplier = InPlaceOf(row.attention_multiplier, "attention.scale");
  row.attention_multiplier_absent = 0.0;
  row.logit_multiplier = InPlaceOf(row.logit_multiplier, "logit_scale");
  row.logit_multiplier_absent = 1.0;
  row.logit_divisor = InPlaceOf(row.logit_divisor, "logit_scale");
  row.clip = InPlaceOf(row.clip, "attention.clamp_kqv");
  row.without = row.without_too = row.only_with = row.only_with_too = row.only_width = "";
  row.window_key = kGgufWindow;
  row.window = 0;
  if (row.windows != WindowKeys::kTypes) row.windows = WindowKeys::kAll;
  row.pattern_key = row.windows == WindowKeys::kTypes ? kGgufPattern : "";
  return row;
}

// The layers with experts are those that have their tensors.
constexpr ExpertsRow Gguf(ExpertsRow row) {
  row.n_experts = {"expert_count"};
  row.n_used = {"expert_used_count"};
  row.n_experts_absent = row.n_used_absent = 0;
  row.width = "expert_feed_forward_length";
  row.width_absent = 0;
  row.groups = true;
  row.group_method = false;
  row.n_groups = "expert_group_count";
  row.n_groups_used = "expert_group_used_count";
  row.norm_key = "";
  row.least_sum_key = "";
  row.scale = InPlaceOf(row.scale, "expert_weights_scale");
  row.scale_absent = 1.0;
  row.n_shared = InPlaceOf(row.n_shared, "expert_shared_count");
  row.n_shared_absent = 0;
  row.shared_width = InPlaceOf(row.shared_width, "expert_shared_feed_forward_length");
  row.shared_width_absent = 0;
  row.shared_is_dense = false;
  row.layers = ExpertLayers::kListed;
  return row;
}

// A key says whether the weights are normalised, and how the scores are made.
constexpr ExpertsRow SaidByKeys(ExpertsRow row) {
  row = Gguf(row);
  row.norm_key = "expert_weights_norm";
  row.normalised = false;
  row.gating_key = "expert_gating_func";
  return row;
}

// What is shared has a width of its own.
constexpr ExpertsRow SharedByWidth(ExpertsRow row) {
  row.n_shared = "";
  row.shared_width = "expert_shared_feed_forward_length";
  return row;
}

constexpr LlamaRow WithExperts(LlamaRow row, const ExpertsRow& experts) {
  row.experts = &experts;
  return row;
}

// Layers with a window have one of this width where no key says it, so that 0 is no width.
constexpr LlamaRow WithWindow(LlamaRow row, int64_t window) {
  row.window = window;
  return row;
}

inline constexpr LlamaRow kGgufLlama = Gguf(kLlamaRow, true);
inline constexpr ExpertsRow kGgufMixtralExperts = Gguf(kMixtralExperts);
inline constexpr LlamaRow kGgufMixtral = WithExperts(kGgufLlama, kGgufMixtralExperts);
inline constexpr LlamaRow kGgufQwen2 = Gguf(kQwen2Row);
inline constexpr LlamaRow kGgufQwen3 = Gguf(kQwen3Row);
inline constexpr ExpertsRow kGgufQwen2MoeExperts = Gguf(kQwen2MoeExperts);
inline constexpr LlamaRow kGgufQwen2Moe = WithExperts(Gguf(kQwen2MoeRow), kGgufQwen2MoeExperts);
inline constexpr ExpertsRow kGgufQwen3MoeExperts = [] {
  ExpertsRow row = Gguf(kQwen3MoeExperts);
  row.normalised = true;
  return row;
}();
inline constexpr LlamaRow kGgufQwen3Moe = WithExperts(Gguf(kQwen3MoeRow), kGgufQwen3MoeExperts);
inline constexpr LlamaRow kGgufStarcoder = Gguf(kGptBigCodeRow);
inline constexpr LlamaRow kGgufStarcoder2 = Gguf(kStarcoder2Row);
inline constexpr LlamaRow kGgufGemma = Gguf(kGemmaRow);
inline constexpr LlamaRow kGgufGemma2 = WithWindow(Gguf(kGemma2Row), 4096);
inline constexpr LlamaRow kGgufGemma3 = Gguf(kGemma3Row);
inline constexpr LlamaRow kGgufGemma4 = [] {
  LlamaRow row = Gguf(kGemma4Row);
  row.logit_cap = 30.0;
  return row;
}();
inline constexpr ExpertsRow kGgufGemma4Experts = [] {
  ExpertsRow row = Gguf(kGemma4Experts);
  row.shared_is_dense = true;
  return row;
}();
inline constexpr LlamaRow kGgufGemma4Moe = WithExperts(kGgufGemma4, kGgufGemma4Experts);
inline constexpr LlamaRow kGgufPhi2 = Gguf(kPhiRow);
inline constexpr LlamaRow kGgufPhi3 = Gguf(kPhi3Row);
inline constexpr ExpertsRow kGgufGptOssExperts = Gguf(kGptOssExperts);
inline constexpr LlamaRow kGgufGptOss =
    WithExperts(WithWindow(Gguf(kGptOssRow), 128), kGgufGptOssExperts);
inline constexpr LlamaRow kGgufGranite = Gguf(kGraniteRow, true);
inline constexpr ExpertsRow kGgufGraniteExperts = Gguf(kGraniteSharedExperts);
inline constexpr LlamaRow kGgufGraniteMoe =
    WithExperts(Gguf(kGraniteSharedRow, true), kGgufGraniteExperts);
inline constexpr LlamaRow kGgufMiniCpm = [] {
  LlamaRow row = kGgufGranite;
  row.attention_multiplier = "";
  return row;
}();
inline constexpr LlamaRow kGgufOlmo = Gguf(kOlmoRow, true);
inline constexpr LlamaRow kGgufOlmo2 = Gguf(kOlmo3Row);
inline constexpr ExpertsRow kGgufOlmoeExperts = Gguf(kOlmoeExperts);
inline constexpr LlamaRow kGgufOlmoe = [] {
  LlamaRow row = WithExperts(Gguf(kOlmoeRow), kGgufOlmoeExperts);
  row.clip = "";
  return row;
}();
inline constexpr LlamaRow kGgufSmolLm3 = Gguf(kSmolLm3Row, true);
inline constexpr LlamaRow kGgufMistral3 = Gguf(kMinistral3Row, true);
inline constexpr LlamaRow kGgufArcee = Gguf(kArceeRow, true);
inline constexpr LlamaRow kGgufGlm = Gguf(kGlmRow);
inline constexpr LlamaRow kGgufGlm4 = Gguf(kGlm4Row);
inline constexpr ExpertsRow kGgufGlm4MoeExperts = SaidByKeys(kGlm4MoeExperts);
inline constexpr LlamaRow kGgufGlm4Moe = WithExperts(Gguf(kGlm4MoeRow), kGgufGlm4MoeExperts);
inline constexpr ExpertsRow kGgufDots1Experts = SaidByKeys(kDots1Experts);
inline constexpr LlamaRow kGgufDots1 = WithExperts(Gguf(kDots1Row), kGgufDots1Experts);
inline constexpr LlamaRow kGgufExaone4 = Gguf(kExaone4Row);
inline constexpr ExpertsRow kGgufExaoneMoeExperts = SharedByWidth(SaidByKeys(kExaoneMoeExperts));
inline constexpr LlamaRow kGgufExaoneMoe =
    WithExperts(WithWindow(Gguf(kExaoneMoeRow), 128), kGgufExaoneMoeExperts);
inline constexpr LlamaRow kGgufStableLm = Gguf(kStableLmRow);
inline constexpr LlamaRow kGgufCommandR = Gguf(kCohereRow);
inline constexpr LlamaRow kGgufCohere2 = WithWindow(Gguf(kCohere2Row), 4096);
inline constexpr LlamaRow kGgufErnie = Gguf(kErnie45Row);
inline constexpr ExpertsRow kGgufErnieExperts = SharedByWidth(Gguf(kErnieMoeExperts));
inline constexpr LlamaRow kGgufErnieMoe = WithExperts(Gguf(kErnieMoeRow), kGgufErnieExperts);
inline constexpr LlamaRow kGgufHunYuan = Gguf(kHunYuanRow);
inline constexpr ExpertsRow kGgufHunYuanExperts = SharedByWidth(Gguf(kHunYuanExperts));
inline constexpr LlamaRow kGgufHunYuanMoe = WithExperts(Gguf(kHunYuanMoeRow), kGgufHunYuanExperts);
inline constexpr ExpertsRow kGgufHyV3Experts = SharedByWidth(SaidByKeys(kHyV3Experts));
inline constexpr LlamaRow kGgufHyV3 = WithExperts(Gguf(kHyV3Row), kGgufHyV3Experts);
// What these models have in no key, the reader of Llama 4 has.
inline constexpr ExpertsRow kGgufLlama4Experts = [] {
  ExpertsRow row = Gguf(kLlama4Experts);
  row.shared_width = row.width;
  return row;
}();
inline constexpr LlamaRow kGgufLlama4 = [] {
  LlamaRow row = WithExperts(Gguf(kLlama4Row, true), kGgufLlama4Experts);
  row.windows = WindowKeys::kNone;
  return row;
}();
// llama.cpp's are the first BitNet models, whose feed-forward has a gate of SiLU.
inline constexpr LlamaRow kGgufBitNet = [] {
  LlamaRow row = Gguf(kBitNetRow);
  row.activations = kSiluNames;
  return row;
}();
inline constexpr LlamaRow kGgufSeedOss = Gguf(kSeedOssRow);
inline constexpr LlamaRow kGgufNemotron = Gguf(kNemotronRow);
inline constexpr LlamaRow kGgufJais2 = Gguf(kJais2Row);
inline constexpr LlamaRow kGgufApertus = Gguf(kApertusRow);
inline constexpr LlamaRow kGgufGptNeoX = [] {
  LlamaRow row = Gguf(kGptNeoXRow);
  row.norms_key = {"use_parallel_residual", true};
  return row;
}();
inline constexpr LlamaRow kGgufFalcon = Gguf(kFalconRow);
inline constexpr LlamaRow kGgufBloom = Gguf(kBloomRow);
inline constexpr LlamaRow kGgufMpt = [] {
  LlamaRow row = Gguf(kMptRow);
  row.alibi = true;
  row.clip = "attention.clamp_kqv";
  return row;
}();
inline constexpr ExpertsRow kGgufMiniMaxExperts = [] {
  ExpertsRow row = Gguf(kMiniMaxExperts);
  row.gating_key = "expert_gating_func";
  return row;
}();
inline constexpr LlamaRow kGgufMiniMax = WithExperts(Gguf(kMiniMaxRow), kGgufMiniMaxExperts);
inline constexpr ExpertsRow kGgufAfmoeExperts = SaidByKeys(kAfmoeExperts);
inline constexpr LlamaRow kGgufAfmoe = [] {
  LlamaRow row = WithExperts(Gguf(kAfmoeRow), kGgufAfmoeExperts);
  row.width_scales_embedding = {.absent = true};
  return row;
}();
inline constexpr ExpertsRow kGgufBailingExperts = [] {
  ExpertsRow row = SaidByKeys(kGlm4MoeExperts);
  row.sigmoid = row.selection_bias = false;
  row.gating_key = "";
  return row;
}();
inline constexpr LlamaRow kGgufBailing = WithExperts(kGgufLlama, kGgufBailingExperts);
inline constexpr LatentRow kGgufLatents = {.head_dim_turns = false};
inline constexpr LlamaRow kGgufDeepSeekDense = [] {
  LlamaRow row = Gguf(kDeepSeekV3Row);
  row.experts = nullptr;
  row.latent = &kGgufLatents;
  row.grouped = false;
  return row;
}();
inline constexpr ExpertsRow kGgufDeepSeekExperts = [] {
  ExpertsRow row = SaidByKeys(kDeepSeekV3Experts);
  row.sigmoid = row.selection_bias = false;  // where nothing says it
  return row;
}();
inline constexpr LlamaRow kGgufDeepSeek = WithExperts(kGgufDeepSeekDense, kGgufDeepSeekExperts);

inline constexpr LlamaRow kGgufLfm2 = Gguf(kLfm2Row);
inline constexpr ExpertsRow kGgufLfm2Experts = [] {
  ExpertsRow row = Gguf(kLfm2Experts);
  row.selection_bias = false;
  row.selection_bias_key = "";
  row.gating_key = "expert_gating_func";
  row.scale = "";
  return row;
}();
inline constexpr LlamaRow kGgufLfm2Moe = WithExperts(Gguf(kLfm2MoeRow), kGgufLfm2Experts);
inline constexpr LlamaRow kGgufQwen35 = Gguf(kQwen35Row);
inline constexpr ExpertsRow kGgufQwen35Experts = Gguf(kQwen35Experts);
inline constexpr LlamaRow kGgufQwen35Moe = WithExperts(Gguf(kQwen35MoeRow), kGgufQwen35Experts);
inline constexpr LlamaRow kGgufQwenNext = WithExperts(Gguf(kQwenNextRow), kGgufQwen35Experts);
inline constexpr LlamaRow kGgufGraniteHybrid =
    WithExperts(Gguf(kGraniteHybridRow, true), kGgufGraniteExperts);
inline constexpr LlamaRow kGgufGraniteHybridDense = Gguf(kGraniteHybridDenseRow, true);
inline constexpr ExpertsRow kGgufNemotronExperts = [] {
  ExpertsRow row = SharedByWidth(SaidByKeys(kNemotronExperts));
  row.gating_key = "";
  return row;
}();
inline constexpr LlamaRow kGgufNemotronHybrid =
    WithExperts(Gguf(kNemotronHybridRow), kGgufNemotronExperts);
inline constexpr LlamaRow kGgufNemotronHybridDense = [] {
  LlamaRow row = kGgufNemotronHybrid;
  row.experts = nullptr;
  return row;
}();

// What the readers of states ask for (state_configs.h).
inline constexpr GgufStateSize kShortConvSizes[] = {{"shortconv.l_cache", "conv_L_cache"}};
inline constexpr GgufStates kGgufShortConv = {.layer_type = "conv", .sizes = kShortConvSizes};
inline constexpr GgufStateSize kDeltaRuleSizes[] = {
    {"ssm.conv_kernel", "linear_conv_kernel_dim"},
    {"ssm.group_count", "linear_num_key_heads"},
    {"ssm.time_step_rank", "linear_num_value_heads"},
    {"ssm.state_size", "linear_key_head_dim"}};
inline constexpr GgufStates kGgufDeltaRule = {.layer_type = "linear_attention",
                                              .layers = GgufStateLayers::kListed,
                                              .sizes = kDeltaRuleSizes,
                                              .value_dim = "linear_value_head_dim"};
inline constexpr GgufStates kGgufDeltaRuleInTurn = [] {
  GgufStates states = kGgufDeltaRule;
  states.heads_in_turn = true;
  return states;
}();
inline constexpr GgufStateSize kGraniteMambaSizes[] = {{"ssm.conv_kernel", "mamba_d_conv"},
                                                       {"ssm.group_count", "mamba_n_groups"},
                                                       {"ssm.time_step_rank", "mamba_n_heads"},
                                                       {"ssm.state_size", "mamba_d_state"}};
inline constexpr GgufStates kGgufGraniteMamba = {.layer_type = "mamba",
                                                 .sizes = kGraniteMambaSizes,
                                                 .value_dim = "mamba_d_head",
                                                 .expansion = "mamba_expand",
                                                 .conv_bias = "mamba_conv_bias"};
inline constexpr GgufStateSize kNemotronMambaSizes[] = {{"ssm.conv_kernel", "conv_kernel"},
                                                        {"ssm.group_count", "n_groups"},
                                                        {"ssm.time_step_rank", "mamba_num_heads"},
                                                        {"ssm.state_size", "ssm_state_size"}};
inline constexpr GgufStates kGgufNemotronMamba = {.layer_type = "mamba",
                                                  .layers = GgufStateLayers::kOneBlock,
                                                  .sizes = kNemotronMambaSizes,
                                                  .value_dim = "mamba_head_dim",
                                                  .conv_bias = "mamba_conv_bias",
                                                  .least_step = "time_step_min"};

}  // namespace ng

#endif  // NG_CORE_MODEL_GGUF_GGUF_ROWS_H_
