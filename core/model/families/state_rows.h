// The families with states in some layers that are otherwise made like llama (llama_configs.h).
#ifndef NG_CORE_MODEL_FAMILIES_STATE_ROWS_H_
#define NG_CORE_MODEL_FAMILIES_STATE_ROWS_H_

#include "core/model/families/expert_rows.h"
#include "core/model/families/llama_rows.h"
#include "core/model/keys/llama_configs.h"
#include "core/model/keys/state_configs.h"

namespace ng {

inline constexpr LlamaRow kLfm2Row = {.keys = {.ffn_width = {"intermediate_size", "block_ff_dim"}},
                                      .vocab_size = 65536,
                                      .width = 2560,
                                      .ffn_width = 12288,
                                      .hybrid = &kLfm2Hybrid,
                                      .n_kv_heads = 8,
                                      .max_positions = 128000,
                                      .theta = 1000000.0,
                                      .eps_key = "norm_eps",
                                      .eps = 1e-5,
                                      .qk_norm = {.absent = true},
                                      .activation_key = "",
                                      .tied_key = "tie_embedding",
                                      .tied_head = true};
inline constexpr ExpertsRow kLfm2Experts = {.n_experts = {"num_experts"},
                                            .n_experts_absent = 32,
                                            .n_used_absent = 4,
                                            .width = "moe_intermediate_size",
                                            .width_absent = 1792,
                                            .sigmoid = true,
                                            .selection_bias = true,
                                            .selection_bias_key = "use_expert_bias",
                                            .normalised = true,
                                            .norm_key = "norm_topk_prob",
                                            .added_to_sum = 1e-6,
                                            .scale = "routed_scaling_factor",
                                            .layers = ExpertLayers::kBehindDense,
                                            .n_dense = "num_dense_layers",
                                            .n_dense_absent = 2};
inline constexpr LlamaRow kLfm2MoeRow = [] {
  LlamaRow row = kLfm2Row;
  row.keys = {};
  row.width = 2048;
  row.ffn_width = 7168;
  row.experts = &kLfm2Experts;
  return row;
}();

inline constexpr LlamaRow kQwen35Row = {.vocab_size = 248320,
                                        .ffn_width = 12288,
                                        .hybrid = &kQwenNextHybrid,
                                        .n_heads = 16,
                                        .n_kv_heads = 4,
                                        .head_dim = 256,
                                        .max_positions = 32768,
                                        .attention_gate = true,
                                        .rope_part = 0.25,
                                        .norm_offset = 1.0F,
                                        .qk_norm = {.absent = true},
                                        .qkv_bias = kAttentionBias,
                                        .attn_out_bias = kAttentionBias};
inline constexpr ExpertsRow kQwen35Experts = {.n_experts = {"num_experts"},
                                              .n_experts_absent = 256,
                                              .n_used_absent = 8,
                                              .width = "moe_intermediate_size",
                                              .width_absent = 512,
                                              .normalised = true,
                                              .shared_width = "shared_expert_intermediate_size",
                                              .shared_width_absent = 512,
                                              .shared_gate = true};
inline constexpr LlamaRow kQwen35MoeRow = [] {
  LlamaRow row = kQwen35Row;
  row.width = 2048;
  row.experts = &kQwen35Experts;
  row.n_layers = 40;
  row.n_kv_heads = 2;
  return row;
}();
inline constexpr ExpertsRow kQwenNextExperts = [] {
  ExpertsRow row = kQwen35Experts;
  row.n_experts_absent = 512;
  row.n_used_absent = 10;
  row.norm_key = "norm_topk_prob";
  row.layers = ExpertLayers::kStep;
  return row;
}();
inline constexpr LlamaRow kQwenNextRow = [] {
  LlamaRow row = kQwen35MoeRow;
  row.vocab_size = 151936;
  row.ffn_width = 5632;
  row.experts = &kQwenNextExperts;
  row.n_layers = 48;
  return row;
}();

inline constexpr LlamaRow kGraniteHybridRow = [] {
  LlamaRow row = kGraniteSharedRow;
  row.hybrid = &kGraniteHybrid;
  row.rope_layers = RopeLayers::kIfTyped;
  return row;
}();
// Without experts the feed-forward is the one that all rows share.
inline constexpr LlamaRow kGraniteHybridDenseRow = [] {
  LlamaRow row = kGraniteHybridRow;
  row.keys.ffn_width = {"shared_intermediate_size"};
  row.ffn_width = 1024;
  row.experts = nullptr;
  return row;
}();

inline constexpr ExpertsRow kNemotronExperts = [] {
  ExpertsRow row = kGlm4MoeExperts;
  row.n_experts_absent = 8;
  row.n_used_absent = 2;
  row.width_absent = 7688;
  row.n_shared = "";
  row.shared_width = "moe_shared_expert_intermediate_size";
  row.shared_width_absent = 7688;
  row.layers = ExpertLayers::kAll;
  return row;
}();
// Its list of layers says how many there are.
inline constexpr LlamaRow kNemotronHybridRow = {.keys = {.n_layers = {""}},
                                                .vocab_size = 131072,
                                                .ffn_width = 21504,
                                                .experts = &kNemotronExperts,
                                                .hybrid = &kNemotronHybrid,
                                                .n_kv_heads = 8,
                                                .head_dim = 128,
                                                .max_positions = 4096,
                                                .eps_key = "layer_norm_epsilon",
                                                .eps = 1e-5,
                                                .activation_key = "mlp_hidden_act",
                                                .activations = kReluSquaredNames,
                                                .gated = false,
                                                .mlp_bias = kMlpBias,
                                                .without = "moe_latent_size",
                                                .rope_layers = RopeLayers::kNone};

}  // namespace ng

#endif  // NG_CORE_MODEL_FAMILIES_STATE_ROWS_H_
