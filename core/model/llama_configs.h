// The families that are made like llama: pre-norm, RoPE, grouped queries, and a feed-forward layer
// whose tensors have llama's names or starcoder2's. Each is a row: what an absent key means, by its
// configuration class in transformers, and which keys it has at all.
//
// Errors of every reader: ModelFileError naming `path`, the key, the value found and what is
// allowed.
#ifndef NG_CORE_MODEL_LLAMA_CONFIGS_H_
#define NG_CORE_MODEL_LLAMA_CONFIGS_H_

#include <cstdint>
#include <span>
#include <string>

#include "core/formats/json.h"
#include "core/model/config_fields.h"
#include "core/model/model_spec.h"
#include "ng/status.h"

namespace ng {

// Which layers see a window of keys only.
enum class WindowKeys {
  kNone,
  kAll,    // sliding_window: all of them
  kTypes,  // those that layer_types lists as "sliding_attention"
  kQwen,   // if use_sliding_window: those that layer_types lists, or those behind max_window_layers
};

struct BiasKey {
  const char* key = "";        // empty: no key says it
  bool absent = false;         // where it is not there
  const char* older_key = "";  // another name of it; empty: none
};

struct LlamaRow {
  int64_t vocab_size = 32000;
  int64_t width = 4096;
  int64_t ffn_width = 11008;
  int64_t n_layers = 32;
  int64_t n_heads = 32;
  int64_t n_kv_heads = 0;      // 0: as many as heads
  int64_t head_dim = 0;        // 0: the width shared out
  bool null_head_dim = false;  // null: the width shared out, though an absent one is not
  int64_t max_positions = 2048;
  double theta = 10000.0;
  bool scaled_by_default = false;  // without an object of RoPE's, the class scales it: refused
  RopePairing pairing = RopePairing::kHalfSplit;
  NormKind norm = NormKind::kRmsNorm;
  const char* eps_key = "rms_norm_eps";  // empty: none
  double eps = 1e-6;
  bool norm_affine = true;
  bool norm_bias = false;
  bool qk_norm = false;  // of each head
  std::span<const ActivationName> activations = kSiluNames;
  bool gated = true;
  BiasKey qkv_bias = {};
  BiasKey attn_out_bias = {};
  BiasKey mlp_bias = {};
  bool biases_agree = false;  // all of them or none
  bool tied_head = false;
  const char* without = "";  // a key that can run only as null
  WindowKeys windows = WindowKeys::kNone;
  int64_t window = 4096;   // where sliding_window is absent
  int64_t full_every = 0;  // kTypes without layer_types: layers 0, n, 2n, ... see all keys; 0: none
};

inline constexpr BiasKey kAttentionBias = {"attention_bias"};
inline constexpr BiasKey kMlpBias = {"mlp_bias"};
inline constexpr BiasKey kUseBias = {"use_bias"};

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
                                       .qk_norm = true,
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
                                     .full_every = 4};
inline constexpr LlamaRow kOlmoRow = {.vocab_size = 50304,
                                      .norm = NormKind::kLayerNorm,
                                      .eps_key = "",
                                      .eps = 1e-5,
                                      .norm_affine = false,
                                      .qkv_bias = kAttentionBias,
                                      .attn_out_bias = kAttentionBias,
                                      .without = "clip_qkv"};
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

absl::StatusOr<ModelSpec> ReadLlamaLike(const JsonFields& config, const std::string& path,
                                        const LlamaRow& row);

// The reader of one row, as Family has it.
template <const LlamaRow& kRow>
absl::StatusOr<ModelSpec> ReadLlamaRow(const JsonFields& config, const std::string& path) {
  return ReadLlamaLike(config, path, kRow);
}

}  // namespace ng

#endif  // NG_CORE_MODEL_LLAMA_CONFIGS_H_
