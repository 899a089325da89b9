// The families that are made like llama and have RMSNorm, and the first that have LayerNorm: what
// an absent key means in each one's configuration class in transformers, and what its models have.
#ifndef NG_CORE_MODEL_FAMILIES_LLAMA_ROWS_H_
#define NG_CORE_MODEL_FAMILIES_LLAMA_ROWS_H_

#include "core/model/keys/llama_configs.h"

namespace ng {

inline constexpr SwitchKey kAttentionBias = {"attention_bias"};
inline constexpr SwitchKey kMlpBias = {"mlp_bias"};
inline constexpr SwitchKey kUseBias = {"use_bias"};

inline constexpr LlamaRow kLlamaRow = {
    .qkv_bias = kAttentionBias, .attn_out_bias = kAttentionBias, .mlp_bias = kMlpBias};
inline constexpr LlamaRow kMistralRow = {
    .ffn_width = 14336, .n_kv_heads = 8, .max_positions = 131072, .windows = WindowKeys::kAll};
inline constexpr LlamaRow kMinistralRow = {
    .ffn_width = 14336, .n_kv_heads = 8, .max_positions = 131072, .windows = WindowKeys::kTypes};
inline constexpr LlamaRow kQwen2Row = {.vocab_size = 151936,
                                       .ffn_width = 22016,
                                       .n_kv_heads = 32,
                                       .max_positions = 32768,
                                       .qkv_bias = {.absent = true},
                                       .windows = WindowKeys::kQwen};
inline constexpr LlamaRow kQwen3Row = {.vocab_size = 151936,
                                       .ffn_width = 22016,
                                       .n_kv_heads = 32,
                                       .head_dim = 128,
                                       .max_positions = 32768,
                                       .qk_norm = {.absent = true},
                                       .qkv_bias = kAttentionBias,
                                       .attn_out_bias = kAttentionBias,
                                       .windows = WindowKeys::kQwen};
inline constexpr LlamaRow kSeedOssRow = {.vocab_size = 155136,
                                         .ffn_width = 27648,
                                         .n_layers = 64,
                                         .n_heads = 80,
                                         .n_kv_heads = 8,
                                         .head_dim = 128,
                                         .null_head_dim = true,
                                         .max_positions = 524288,
                                         .qkv_bias = {"attention_bias", true},
                                         .attn_out_bias = {"attention_out_bias"},
                                         .mlp_bias = kMlpBias};
inline constexpr LlamaRow kInternLm3Row = {.vocab_size = 128512,
                                           .ffn_width = 10240,
                                           .n_layers = 48,
                                           .n_kv_heads = 2,
                                           .head_dim = 128,
                                           .null_head_dim = true,
                                           .max_positions = 32768,
                                           .eps = 1e-5,
                                           .qkv_bias = {"attention_bias", false, "qkv_bias"},
                                           .attn_out_bias = {"attention_bias", false, "qkv_bias"},
                                           .mlp_bias = {"mlp_bias", false, "bias"},
                                           .biases_agree = true};
inline constexpr LlamaRow kHeliumRow = {.vocab_size = 48000,
                                        .width = 2560,
                                        .ffn_width = 7040,
                                        .n_layers = 24,
                                        .n_heads = 20,
                                        .n_kv_heads = 20,
                                        .head_dim = 128,
                                        .max_positions = 4096,
                                        .theta = 100000.0,
                                        .pairing = RopePairing::kInterleaved,
                                        .eps = 1e-8,
                                        .qkv_bias = kAttentionBias,
                                        .mlp_bias = kMlpBias};
inline constexpr LlamaRow kErnie45Row = {.vocab_size = 103424,
                                         .width = 1024,
                                         .ffn_width = 3072,
                                         .n_layers = 18,
                                         .n_heads = 16,
                                         .n_kv_heads = 2,
                                         .head_dim = 128,
                                         .null_head_dim = true,
                                         .max_positions = 131072,
                                         .theta = 500000.0,
                                         .pairing = RopePairing::kInterleaved,
                                         .eps = 1e-5,
                                         .qkv_bias = kUseBias,
                                         .attn_out_bias = kUseBias,
                                         .mlp_bias = kUseBias,
                                         .tied_head = true};
inline constexpr LlamaRow kCwmRow = {.vocab_size = 128256,
                                     .width = 6144,
                                     .ffn_width = 21504,
                                     .n_layers = 64,
                                     .n_heads = 48,
                                     .n_kv_heads = 8,
                                     .head_dim = 128,
                                     .null_head_dim = true,
                                     .max_positions = 131072,
                                     .theta = 1000000.0,
                                     .scaled_by_default = true,
                                     .eps = 1e-5,
                                     .mlp_bias = kMlpBias,
                                     .windows = WindowKeys::kTypes,
                                     .window = 8192,
                                     .full_every = 4,
                                     .full_first = true};
inline constexpr LlamaRow kOlmoRow = {.vocab_size = 50304,
                                      .norm = NormKind::kLayerNorm,
                                      .eps_key = "",
                                      .eps = 1e-5,
                                      .norm_affine = false,
                                      .qkv_bias = kAttentionBias,
                                      .attn_out_bias = kAttentionBias,
                                      .clip = "clip_qkv"};
inline constexpr LlamaRow kStarcoder2Row = {.vocab_size = 49152,
                                            .width = 3072,
                                            .ffn_width = 12288,
                                            .n_layers = 30,
                                            .n_heads = 24,
                                            .n_kv_heads = 2,
                                            .max_positions = 4096,
                                            .norm = NormKind::kLayerNorm,
                                            .eps_key = "norm_epsilon",
                                            .eps = 1e-5,
                                            .norm_bias = true,
                                            .activations = kGeluNames,
                                            .gated = false,
                                            .qkv_bias = {"use_bias", true},
                                            .attn_out_bias = {"use_bias", true},
                                            .mlp_bias = {"use_bias", true},
                                            .tied_head = true,
                                            .windows = WindowKeys::kAll,
                                            .window = 0};

inline constexpr LlamaRow kArceeRow = {.width = 2560,
                                       .ffn_width = 18432,
                                       .null_head_dim = true,
                                       .max_positions = 4096,
                                       .eps = 1e-5,
                                       .activations = kReluSquaredNames,
                                       .gated = false,
                                       .qkv_bias = kAttentionBias,
                                       .attn_out_bias = kAttentionBias,
                                       .mlp_bias = kMlpBias};
inline constexpr LlamaRow kHunYuanRow = {.vocab_size = 290943,
                                         .null_head_dim = true,
                                         .rope_keys = {.dynamic_alpha = true},
                                         .eps = 1e-5,
                                         .qk_norm = {.absent = true},
                                         .qk_norm_kind = QkNormKind::kHeadsAfterRope,
                                         .qkv_bias = kAttentionBias,
                                         .attn_out_bias = kAttentionBias};
inline constexpr LlamaRow kSmolLm3Row = {.vocab_size = 128256,
                                         .width = 2048,
                                         .n_layers = 36,
                                         .n_heads = 16,
                                         .n_kv_heads = 4,
                                         .max_positions = 32768,
                                         .theta = 2000000.0,
                                         .qkv_bias = kAttentionBias,
                                         .attn_out_bias = kAttentionBias,
                                         .mlp_bias = kMlpBias,
                                         .tied_head = true,
                                         .windows = WindowKeys::kListed,
                                         .rope_layers = RopeLayers::kListed};
inline constexpr LlamaRow kGraniteRow = {.qkv_bias = kAttentionBias,
                                         .attn_out_bias = kAttentionBias,
                                         .mlp_bias = kMlpBias,
                                         .embedding_multiplier = "embedding_multiplier",
                                         .residual_multiplier = "residual_multiplier",
                                         .attention_multiplier = "attention_multiplier",
                                         .logit_divisor = "logits_scaling"};
inline constexpr LlamaRow kHyperClovaXRow = {.null_head_dim = true,
                                             .norms = Norms::kAround,
                                             .norms_key = {"use_post_norm", true},
                                             .qkv_bias = kAttentionBias,
                                             .attn_out_bias = kAttentionBias,
                                             .mlp_bias = kMlpBias,
                                             .embedding_multiplier = "embedding_multiplier",
                                             .residual_multiplier = "residual_multiplier",
                                             .attention_multiplier = "attention_multiplier",
                                             .attention_multiplier_absent = 0.0,
                                             .logit_multiplier = "logits_scaling"};
inline constexpr LlamaRow kOlmo2Row = {.vocab_size = 50304,
                                       .eps = 1e-5,
                                       .norms = Norms::kAfter,
                                       .qk_norm = {.absent = true},
                                       .qk_norm_kind = QkNormKind::kWidth,
                                       .qkv_bias = kAttentionBias,
                                       .attn_out_bias = kAttentionBias};
inline constexpr LlamaRow kOlmo3Row = {.vocab_size = 50304,
                                       .theta = 500000.0,
                                       .eps = 1e-5,
                                       .norms = Norms::kAfter,
                                       .qk_norm = {.absent = true},
                                       .qk_norm_kind = QkNormKind::kWidth,
                                       .qkv_bias = kAttentionBias,
                                       .attn_out_bias = kAttentionBias,
                                       .windows = WindowKeys::kTypes,
                                       .full_every = 4,
                                       .rope_layers = RopeLayers::kByType,
                                       .sliding_theta = 500000.0};
inline constexpr LlamaRow kExaone4Row = {.vocab_size = 102400,
                                         .ffn_width = 16384,
                                         .n_kv_heads = 32,
                                         .eps = 1e-5,
                                         .norms = Norms::kAfter,
                                         .qk_norm = {.absent = true},
                                         .windows = WindowKeys::kTypes,
                                         .full_every = 4,
                                         .pattern_key = "sliding_window_pattern",
                                         .rope_layers = RopeLayers::kWindowed};
inline constexpr LlamaRow kGlmRow = {.vocab_size = 151552,
                                     .ffn_width = 13696,
                                     .n_layers = 40,
                                     .n_kv_heads = 2,
                                     .head_dim = 128,
                                     .null_head_dim = true,
                                     .max_positions = 131072,
                                     .rope_part = 0.5,
                                     .pairing = RopePairing::kInterleaved,
                                     .eps = 1.5625e-7,
                                     .qkv_bias = {"attention_bias", true}};
inline constexpr LlamaRow kGlm4Row = {.vocab_size = 151552,
                                      .ffn_width = 13696,
                                      .n_layers = 40,
                                      .n_kv_heads = 2,
                                      .head_dim = 128,
                                      .max_positions = 131072,
                                      .rope_part = 0.5,
                                      .pairing = RopePairing::kInterleaved,
                                      .eps = 1.5625e-7,
                                      .norms = Norms::kAround,
                                      .qkv_bias = {"attention_bias", true}};
inline constexpr LlamaRow kGemmaRow = {.vocab_size = 256000,
                                       .width = 3072,
                                       .ffn_width = 24576,
                                       .n_layers = 28,
                                       .n_heads = 16,
                                       .n_kv_heads = 16,
                                       .head_dim = 256,
                                       .max_positions = 8192,
                                       .norm_offset = 1.0F,
                                       .activations = kGemmaNames,
                                       .qkv_bias = kAttentionBias,
                                       .attn_out_bias = kAttentionBias,
                                       .tied_head = true,
                                       .width_scales_embedding = {.absent = true},
                                       .without = "use_bidirectional_attention"};
inline constexpr LlamaRow kGemma2Row = {.vocab_size = 256000,
                                        .width = 2304,
                                        .ffn_width = 9216,
                                        .n_layers = 26,
                                        .n_heads = 8,
                                        .n_kv_heads = 4,
                                        .head_dim = 256,
                                        .max_positions = 8192,
                                        .norm_offset = 1.0F,
                                        .norms = Norms::kAround,
                                        .activation_key = "hidden_activation",
                                        .activations = kGeluTanhFirstNames,
                                        .qkv_bias = kAttentionBias,
                                        .attn_out_bias = kAttentionBias,
                                        .tied_head = true,
                                        .width_scales_embedding = {.absent = true},
                                        .query_scalar = 256.0,
                                        .attention_caps = true,
                                        .logit_caps = true,
                                        .attention_cap = 50.0,
                                        .logit_cap = 30.0,
                                        .without = "use_bidirectional_attention",
                                        .windows = WindowKeys::kTypes,
                                        .full_every = 2};
inline constexpr LlamaRow kVaultGemmaRow = [] {
  LlamaRow row = kGemma2Row;
  row.norms = Norms::kBefore;
  row.without = "";
  return row;
}();
inline constexpr LlamaRow kGemma3Row = [] {
  LlamaRow row = kGemma2Row;
  row.vocab_size = 262208;
  row.max_positions = 131072;
  row.theta = 1000000.0;
  row.qk_norm = {.absent = true};
  row.attention_caps = false;  // its class has the key, and its attention caps nothing
  row.logit_cap = 0.0;
  row.full_every = 6;
  row.pattern_key = "sliding_window_pattern";
  row.rope_layers = RopeLayers::kByType;
  row.sliding_theta_key = "rope_local_base_freq";
  return row;
}();
// What depends on the layer is read apart, RoPE too.
inline constexpr LlamaRow kGemma4Row = [] {
  LlamaRow row = kGemma3Row;
  row.vocab_size = 262144;
  row.n_layers = 30;
  row.norm_offset = 0.0F;
  row.query_scalar = 0.0;
  row.attention_scale = 1.0;
  row.without = "";
  row.window = 512;
  row.pattern_key = "";
  row.rope_layers = RopeLayers::kNone;
  row.layers_own_config = true;
  return row;
}();
inline constexpr LlamaRow kPhi3Row = {
    .vocab_size = 32064,
    .width = 3072,
    .ffn_width = 8192,
    .max_positions = 4096,
    .rope_part = 1.0,
    .rope_keys = {.yarn_is_longrope = true, .original_positions = 4096},
    .eps = 1e-5,
    .windows = WindowKeys::kAll,
    .window = 0};
inline constexpr LlamaRow kNanoChatRow = {.vocab_size = 50304,
                                          .width = 768,
                                          .ffn_width = 8192,
                                          .n_layers = 12,
                                          .n_heads = 6,
                                          .rope_backwards = true,
                                          .norm_affine = false,
                                          .qk_norm = {.absent = true},
                                          .qk_norm_kind = QkNormKind::kHeadsAfterRope,
                                          .activations = kReluSquaredNames,
                                          .gated = false,
                                          .qkv_bias = kAttentionBias,
                                          .attn_out_bias = kAttentionBias,
                                          .embedding_norm = true,
                                          .logit_caps = true,
                                          .logit_cap = 15.0};
inline constexpr LlamaRow kApertusRow = {.vocab_size = 131072,
                                         .ffn_width = 14336,
                                         .max_positions = 65536,
                                         .theta = 12000000.0,
                                         .scaled_by_default = true,
                                         .eps = 1e-5,
                                         .qk_norm = {.absent = true},
                                         .activations = kXieluNames,
                                         .gated = false,
                                         .qkv_bias = kAttentionBias,
                                         .attn_out_bias = kAttentionBias};
inline constexpr LlamaRow kBitNetRow = {.vocab_size = 128256,
                                        .width = 2560,
                                        .ffn_width = 6912,
                                        .n_layers = 30,
                                        .n_heads = 20,
                                        .n_kv_heads = 5,
                                        .inner_norms = true,
                                        .theta = 500000.0,
                                        .eps = 1e-5,
                                        .activations = kReluSquaredOrSiluNames,
                                        .qkv_bias = kAttentionBias,
                                        .attn_out_bias = kAttentionBias};
// Its queries' temperature is read apart.
inline constexpr LlamaRow kMinistral3Row = {.vocab_size = 131072,
                                            .ffn_width = 14336,
                                            .n_layers = 34,
                                            .n_kv_heads = 8,
                                            .head_dim = 128,
                                            .null_head_dim = true,
                                            .max_positions = 262144,
                                            .scaled_by_default = true,
                                            .eps = 1e-5,
                                            .windows = WindowKeys::kAll,
                                            .window = 0};
inline constexpr LatentRow kYoutuLatents = {.interleave = {"rope_interleave", true}};
inline constexpr LlamaRow kYoutuRow = {.vocab_size = 128256,
                                       .width = 2048,
                                       .ffn_width = 6144,
                                       .n_heads = 16,
                                       .n_kv_heads = 16,
                                       .max_positions = 131072,
                                       .latent = &kYoutuLatents,
                                       .tied_head = true,
                                       .without = "attention_bias"};

}  // namespace ng

#endif  // NG_CORE_MODEL_FAMILIES_LLAMA_ROWS_H_
