// The families that have mixtures of experts and are otherwise made like llama (llama_configs.h).
#ifndef NG_CORE_MODEL_FAMILIES_EXPERT_ROWS_H_
#define NG_CORE_MODEL_FAMILIES_EXPERT_ROWS_H_

#include "core/model/families/llama_rows.h"
#include "core/model/keys/expert_configs.h"
#include "core/model/keys/llama_configs.h"

namespace ng {

inline constexpr ExpertsRow kMixtralExperts = {.n_experts = {"num_local_experts", "num_experts"},
                                               .n_experts_absent = 8,
                                               .n_used_absent = 2,
                                               .normalised = true};
inline constexpr LlamaRow kMixtralRow = {.ffn_width = 14336,
                                         .experts = &kMixtralExperts,
                                         .n_kv_heads = 8,
                                         .max_positions = 131072,
                                         .theta = 1000000.0,
                                         .eps = 1e-5,
                                         .windows = WindowKeys::kAll,
                                         .window = 0};
inline constexpr ExpertsRow kQwen2MoeExperts = {.n_experts = {"num_experts"},
                                                .n_experts_absent = 60,
                                                .n_used_absent = 4,
                                                .width = "moe_intermediate_size",
                                                .width_absent = 1408,
                                                .norm_key = "norm_topk_prob",
                                                .shared_width = "shared_expert_intermediate_size",
                                                .shared_width_absent = 5632,
                                                .shared_gate = true,
                                                .layers = ExpertLayers::kStep};
inline constexpr LlamaRow kQwen2MoeRow = {.vocab_size = 151936,
                                          .width = 2048,
                                          .ffn_width = 5632,
                                          .experts = &kQwen2MoeExperts,
                                          .n_layers = 24,
                                          .n_heads = 16,
                                          .n_kv_heads = 16,
                                          .max_positions = 32768,
                                          .qkv_bias = {"qkv_bias", true},
                                          .windows = WindowKeys::kListed};
inline constexpr ExpertsRow kQwen3MoeExperts = {.n_experts = {"num_experts", "num_local_experts"},
                                                .n_experts_absent = 128,
                                                .n_used_absent = 8,
                                                .width = "moe_intermediate_size",
                                                .width_absent = 768,
                                                .norm_key = "norm_topk_prob",
                                                .layers = ExpertLayers::kStep};
inline constexpr LlamaRow kQwen3MoeRow = {.vocab_size = 151936,
                                          .width = 2048,
                                          .ffn_width = 6144,
                                          .experts = &kQwen3MoeExperts,
                                          .n_layers = 24,
                                          .n_kv_heads = 4,
                                          .max_positions = 32768,
                                          .qk_norm = {.absent = true},
                                          .qkv_bias = kAttentionBias,
                                          .attn_out_bias = kAttentionBias,
                                          .windows = WindowKeys::kUsed};
inline constexpr ExpertsRow kOlmoeExperts = {.n_experts = {"num_experts", "num_local_experts"},
                                             .n_experts_absent = 64,
                                             .n_used_absent = 8,
                                             .norm_key = "norm_topk_prob"};
inline constexpr LlamaRow kOlmoeRow = {.vocab_size = 50304,
                                       .width = 2048,
                                       .ffn_width = 2048,
                                       .experts = &kOlmoeExperts,
                                       .n_layers = 16,
                                       .n_heads = 16,
                                       .max_positions = 4096,
                                       .eps = 1e-5,
                                       .qk_norm = {.absent = true},
                                       .qk_norm_kind = QkNormKind::kWidth,
                                       .qkv_bias = kAttentionBias,
                                       .attn_out_bias = kAttentionBias,
                                       .clip = "clip_qkv"};
inline constexpr ExpertsRow kFlexOlmoExperts = {.n_experts = {"num_experts", "num_local_experts"},
                                                .n_experts_absent = 7,
                                                .n_used_absent = 5,
                                                .norm_key = "norm_topk_prob"};
inline constexpr LlamaRow kFlexOlmoRow = {.vocab_size = 100352,
                                          .experts = &kFlexOlmoExperts,
                                          .max_positions = 4096,
                                          .theta = 500000.0,
                                          .norms = Norms::kAfter,
                                          .qk_norm = {.absent = true},
                                          .qk_norm_kind = QkNormKind::kWidth,
                                          .qkv_bias = kAttentionBias,
                                          .attn_out_bias = kAttentionBias};
// The softmax of the chosen logits is that of all, divided by the sum of the chosen.
inline constexpr ExpertsRow kGraniteMoeExperts = {.n_experts = {"num_local_experts"},
                                                  .n_experts_absent = 8,
                                                  .n_used_absent = 2,
                                                  .normalised = true};
inline constexpr ExpertsRow kGraniteSharedExperts = [] {
  ExpertsRow row = kGraniteMoeExperts;
  row.shared_width = "shared_intermediate_size";
  return row;
}();
inline constexpr LlamaRow kGraniteMoeRow = {.experts = &kGraniteMoeExperts,
                                            .qkv_bias = kAttentionBias,
                                            .attn_out_bias = kAttentionBias,
                                            .embedding_multiplier = "embedding_multiplier",
                                            .residual_multiplier = "residual_multiplier",
                                            .attention_multiplier = "attention_multiplier",
                                            .logit_divisor = "logits_scaling"};
inline constexpr LlamaRow kGraniteSharedRow = [] {
  LlamaRow row = kGraniteMoeRow;
  row.experts = &kGraniteSharedExperts;
  return row;
}();
// DeepSeek's router, which many have.
inline constexpr ExpertsRow kGlm4MoeExperts = {
    .n_experts = {"n_routed_experts", "num_local_experts"},
    .n_experts_absent = 128,
    .n_used_absent = 8,
    .width = "moe_intermediate_size",
    .width_absent = 1408,
    .sigmoid = true,
    .selection_bias = true,
    .groups = true,
    .normalised = true,
    .norm_key = "norm_topk_prob",
    .least_sum = 1e-20,
    .scale = "routed_scaling_factor",
    .n_shared = "n_shared_experts",
    .n_shared_absent = 1,
    .layers = ExpertLayers::kBehindDense,
    .n_dense_absent = 1};
inline constexpr LlamaRow kGlm4MoeRow = {.vocab_size = 151552,
                                         .width = 4096,
                                         .ffn_width = 10944,
                                         .experts = &kGlm4MoeExperts,
                                         .n_layers = 46,
                                         .n_heads = 96,
                                         .n_kv_heads = 8,
                                         .max_positions = 131072,
                                         .rope_part = 0.5,
                                         .eps = 1e-5,
                                         .qk_norm = {"use_qk_norm"},
                                         .qkv_bias = kAttentionBias};
inline constexpr ExpertsRow kDots1Experts = [] {
  ExpertsRow row = kGlm4MoeExperts;
  row.n_experts_absent = row.n_used_absent = 0;
  row.normalised = false;
  row.n_dense_absent = 0;
  return row;
}();
inline constexpr LlamaRow kDots1Row = {.vocab_size = 152064,
                                       .width = 4608,
                                       .ffn_width = 10944,
                                       .experts = &kDots1Experts,
                                       .n_layers = 62,
                                       .n_kv_heads = 32,
                                       .qk_norm = {.absent = true},
                                       .qkv_bias = kAttentionBias,
                                       .attn_out_bias = kAttentionBias,
                                       .windows = WindowKeys::kMaxWindowLayers,
                                       .full_layers = 62};
inline constexpr ExpertsRow kSolarOpenExperts = [] {
  ExpertsRow row = kGlm4MoeExperts;
  row.width_absent = 1280;
  row.layers = ExpertLayers::kAll;
  return row;
}();
inline constexpr LlamaRow kSolarOpenRow = {.vocab_size = 196608,
                                           .experts = &kSolarOpenExperts,
                                           .n_layers = 48,
                                           .n_heads = 64,
                                           .n_kv_heads = 8,
                                           .head_dim = 128,
                                           .max_positions = 131072,
                                           .theta = 1000000.0,
                                           .rope_part = 1.0,
                                           .eps = 1e-5,
                                           .qkv_bias = kAttentionBias};
inline constexpr ExpertsRow kExaoneMoeExperts = [] {
  ExpertsRow row = kGlm4MoeExperts;
  row.n_experts = {"num_experts"};
  row.n_experts_absent = 64;
  row.width_absent = 1024;
  row.scale_absent = 2.5;
  row.n_shared = "num_shared_experts";
  row.layers = ExpertLayers::kListed;
  return row;
}();
inline constexpr LlamaRow kExaoneMoeRow = {.vocab_size = 102400,
                                           .ffn_width = 16384,
                                           .experts = &kExaoneMoeExperts,
                                           .n_kv_heads = 32,
                                           .eps = 1e-5,
                                           .qk_norm = {.absent = true},
                                           .windows = WindowKeys::kTypes,
                                           .full_every = 4,
                                           .pattern_key = "sliding_window_pattern",
                                           .rope_layers = RopeLayers::kWindowed};
inline constexpr ExpertsRow kErnieMoeExperts = {.n_experts = {"moe_num_experts", "num_experts"},
                                                .n_experts_absent = 64,
                                                .n_used = {"moe_k", "num_experts_per_tok"},
                                                .n_used_absent = 6,
                                                .width = "moe_intermediate_size",
                                                .width_absent = 1536,
                                                .selection_bias = true,
                                                .normalised = true,
                                                .least_sum = 1e-12,
                                                .least_sum_key = "moe_norm_min",
                                                .n_shared = "moe_num_shared_experts",
                                                .n_shared_absent = 2,
                                                .layers = ExpertLayers::kRange};
inline constexpr LlamaRow kErnieMoeRow = {.vocab_size = 103424,
                                          .width = 2560,
                                          .ffn_width = 12288,
                                          .experts = &kErnieMoeExperts,
                                          .n_layers = 28,
                                          .n_heads = 20,
                                          .n_kv_heads = 4,
                                          .max_positions = 131072,
                                          .theta = 500000.0,
                                          .pairing = RopePairing::kInterleaved,
                                          .eps = 1e-5,
                                          .tied_head = true,
                                          .without = "use_bias"};
inline constexpr ExpertsRow kHunYuanExperts = {.n_experts_absent = 1,
                                               .n_used = {"moe_topk", "num_experts_per_tok"},
                                               .n_used_absent = 1,
                                               .normalised = true,
                                               .shared_is_dense = true};
inline constexpr LlamaRow kHunYuanMoeRow = [] {
  LlamaRow row = kHunYuanRow;
  row.experts = &kHunYuanExperts;
  return row;
}();
inline constexpr ExpertsRow kMiniMaxExperts = {.n_experts = {"num_local_experts", "num_experts"},
                                               .n_experts_absent = 256,
                                               .n_used_absent = 8,
                                               .sigmoid = true,
                                               .selection_bias = true,
                                               .normalised = true};
inline constexpr LlamaRow kMiniMaxRow = {.vocab_size = 200064,
                                         .width = 3072,
                                         .ffn_width = 1536,
                                         .experts = &kMiniMaxExperts,
                                         .n_layers = 62,
                                         .n_heads = 48,
                                         .n_kv_heads = 8,
                                         .head_dim = 128,
                                         .max_positions = 196608,
                                         .theta = 5000000.0,
                                         .rope_part = 1.0,
                                         .rope_keys = {.absent_part = "rotary_dim"},
                                         .qk_norm = {.absent = true},
                                         .qk_norm_kind = QkNormKind::kWidth};
inline constexpr ExpertsRow kHyV3Experts = {.n_experts = {"num_experts", "num_local_experts"},
                                            .n_experts_absent = 192,
                                            .n_used_absent = 8,
                                            .width = "moe_intermediate_size",
                                            .width_absent = 1536,
                                            .sigmoid = true,
                                            .selection_bias = true,
                                            .normalised = true,
                                            .least_sum = 1e-20,
                                            .scale = "router_scaling_factor",
                                            .scale_absent = 2.826,
                                            .n_shared = "num_shared_experts",
                                            .n_shared_absent = 1,
                                            .layers = ExpertLayers::kListed,
                                            .n_dense = "",
                                            .n_dense_absent = 1};
inline constexpr LlamaRow kHyV3Row = {.vocab_size = 120832,
                                      .ffn_width = 13312,
                                      .experts = &kHyV3Experts,
                                      .n_layers = 80,
                                      .n_heads = 64,
                                      .n_kv_heads = 8,
                                      .head_dim = 128,
                                      .max_positions = 131072,
                                      .theta = 11158840.0,
                                      .eps = 1e-5,
                                      .qk_norm = {.absent = true},
                                      .qkv_bias = kAttentionBias,
                                      .attn_out_bias = kAttentionBias,
                                      .without = "mlp_bias"};
inline constexpr ExpertsRow kGptOssExperts = {.n_experts = {"num_local_experts", "num_experts"},
                                              .n_experts_absent = 128,
                                              .n_used_absent = 4,
                                              .router_bias = true,
                                              .normalised = true,
                                              .clamped = true};
inline constexpr LlamaRow kGptOssRow = {.vocab_size = 201088,
                                        .width = 2880,
                                        .ffn_width = 2880,
                                        .experts = &kGptOssExperts,
                                        .n_layers = 36,
                                        .n_heads = 64,
                                        .n_kv_heads = 8,
                                        .head_dim = 64,
                                        .null_head_dim = true,
                                        .max_positions = 131072,
                                        .sinks = true,
                                        .quantization = "mxfp4",
                                        .theta = 150000.0,
                                        .scaled_by_default = true,
                                        .eps = 1e-5,
                                        .activation_key = "",
                                        .qkv_bias = {"attention_bias", true},
                                        .attn_out_bias = {"attention_bias", true},
                                        .mlp_bias = {.absent = true},
                                        .windows = WindowKeys::kTypes,
                                        .window = 128,
                                        .full_every = 2};
inline constexpr ExpertsRow kAfmoeExperts = {.n_experts_absent = 64,
                                             .n_used_absent = 6,
                                             .width = "moe_intermediate_size",
                                             .width_absent = 1408,
                                             .sigmoid = true,
                                             .selection_bias = true,
                                             .normalised = true,
                                             .least_sum = 1e-20,
                                             .scale = "route_scale",
                                             .n_shared = "num_shared_experts",
                                             .n_shared_absent = 2,
                                             .layers = ExpertLayers::kBehindDense,
                                             .n_dense = "num_dense_layers",
                                             .n_dense_absent = 1};
inline constexpr LlamaRow kAfmoeRow = {.vocab_size = 200192,
                                       .width = 2048,
                                       .ffn_width = 6144,
                                       .experts = &kAfmoeExperts,
                                       .n_heads = 16,
                                       .head_dim = 128,
                                       .max_positions = 16384,
                                       .attention_gate = true,
                                       .eps = 1e-5,
                                       .norms = Norms::kAround,
                                       .qk_norm = {.absent = true},
                                       .qkv_bias = kAttentionBias,
                                       .attn_out_bias = kAttentionBias,
                                       .width_scales_embedding = {"mup_enabled"},
                                       .windows = WindowKeys::kTypes,
                                       .window = 1024,
                                       .full_every = 4,
                                       .pattern_key = "global_attn_every_n_layers",
                                       .rope_layers = RopeLayers::kSliding};
inline constexpr ExpertsRow kLlama4Experts = {.n_experts = {"num_local_experts"},
                                              .n_experts_absent = 16,
                                              .n_used_absent = 1,
                                              .width = "intermediate_size",
                                              .width_absent = 8192,
                                              .sigmoid = true,
                                              .weighs_input = true,
                                              .shared_width = "intermediate_size",
                                              .shared_width_absent = 8192,
                                              .layers = ExpertLayers::kMoeLayers};
// Its chunks, norms of q and k, and temperature go by the layer and are read apart.
inline constexpr LlamaRow kLlama4Row = {.keys = {.ffn_width = {"intermediate_size_mlp"}},
                                        .vocab_size = 202048,
                                        .width = 5120,
                                        .ffn_width = 16384,
                                        .experts = &kLlama4Experts,
                                        .n_layers = 48,
                                        .n_heads = 40,
                                        .n_kv_heads = 8,
                                        .head_dim = 128,
                                        .null_head_dim = true,
                                        .max_positions = 131072,
                                        .theta = 500000.0,
                                        .pairing = RopePairing::kInterleaved,
                                        .eps = 1e-5,
                                        .qkv_bias = kAttentionBias,
                                        .attn_out_bias = kAttentionBias,
                                        .rope_layers = RopeLayers::kListed};
// Without an inner width of its own the class has none.
inline constexpr ExpertsRow kGemma4Experts = {.n_used = {"top_k_experts"},
                                              .width = "moe_intermediate_size",
                                              .normalised = true,
                                              .shared_is_dense = true};
inline constexpr LlamaRow kGemma4MoeRow = [] {
  LlamaRow row = kGemma4Row;
  row.experts = &kGemma4Experts;
  return row;
}();
inline constexpr ExpertsRow kDeepSeekV3Experts = [] {
  ExpertsRow row = kGlm4MoeExperts;
  row.n_experts_absent = 256;
  row.width_absent = 2048;
  row.scale_absent = 2.5;
  row.n_dense_absent = 3;
  return row;
}();
inline constexpr LlamaRow kDeepSeekV3Row = {.vocab_size = 129280,
                                            .width = 7168,
                                            .ffn_width = 18432,
                                            .experts = &kDeepSeekV3Experts,
                                            .n_layers = 61,
                                            .n_heads = 128,
                                            .n_kv_heads = 128,
                                            .max_positions = 4096,
                                            .latent = &kYoutuLatents,
                                            .without = "attention_bias"};
inline constexpr ExpertsRow kDeepSeekV2Experts = {.n_experts = {"n_routed_experts", "num_experts"},
                                                  .n_experts_absent = 64,
                                                  .width = "moe_intermediate_size",
                                                  .width_absent = 1407,
                                                  .group_method = true,
                                                  .scale = "routed_scaling_factor",
                                                  .n_shared = "n_shared_experts",
                                                  .n_shared_absent = 2,
                                                  .layers = ExpertLayers::kBehindDense};
inline constexpr LatentRow kDeepSeekV2Latents = {.head_dim_turns = false};
inline constexpr LlamaRow kDeepSeekV2Row = {.vocab_size = 102400,
                                            .experts = &kDeepSeekV2Experts,
                                            .latent = &kDeepSeekV2Latents,
                                            .without = "attention_bias",
                                            .without_too = "mlp_bias"};
inline constexpr ExpertsRow kGlm4LiteExperts = [] {
  ExpertsRow row = kGlm4MoeExperts;
  row.n_experts_absent = 64;
  row.n_used_absent = 4;
  row.width_absent = 1536;
  row.scale_absent = 1.8;
  row.layers = ExpertLayers::kListed;
  row.n_dense = "";
  return row;
}();
inline constexpr LatentRow kGlm4LiteLatents = {.q_rank = 768,
                                               .nope_dim = 192,
                                               .rope_key = {"qk_rope_head_dim", "head_dim"},
                                               .v_dim = 256,
                                               .head_dim_turns = false,
                                               .interleave = {"rope_interleave", true}};
inline constexpr LlamaRow kGlm4LiteRow = {.vocab_size = 154880,
                                          .width = 2048,
                                          .ffn_width = 10240,
                                          .experts = &kGlm4LiteExperts,
                                          .n_layers = 47,
                                          .n_heads = 20,
                                          .n_kv_heads = 20,
                                          .max_positions = 202752,
                                          .latent = &kGlm4LiteLatents,
                                          .eps = 1e-5,
                                          .without = "attention_bias"};

}  // namespace ng

#endif  // NG_CORE_MODEL_FAMILIES_EXPERT_ROWS_H_
