// A family that is made like llama, as a row: what an absent key means, by its configuration class
// in transformers, which keys it has at all, and where the norms are.
#ifndef NG_CORE_MODEL_KEYS_LLAMA_ROW_H_
#define NG_CORE_MODEL_KEYS_LLAMA_ROW_H_

#include <cstdint>
#include <span>

#include "core/model/keys/config_fields.h"
#include "core/model/keys/expert_configs.h"
#include "core/model/keys/rope_keys.h"
#include "core/model/keys/state_configs.h"
#include "core/model/spec/model_spec.h"

namespace ng {

// Which layers see a window of keys only.
enum class WindowKeys {
  kNone,
  kAll,    // sliding_window: all of them
  kTypes,  // those that layer_types lists as "sliding_attention"
  kQwen,   // if use_sliding_window: those that layer_types lists, or those behind max_window_layers
  kListed,           // if use_sliding_window: those that layer_types lists, and it must list them
  kUsed,             // if use_sliding_window: all
  kMaxWindowLayers,  // those that layer_types lists, or those behind max_window_layers
  kLocal,            // window_size: those that attention_layers or attention_types call "local"
};

// Which layers rotate q and k.
enum class RopeLayers {
  kNone,
  kAll,
  kWindowed,  // those with a window; all where no window is set
  kSliding,   // those of the type with a window
  kIfTyped,   // all, where position_embedding_type is "rope"
  kListed,    // where no_rope_layers says 1; without it all but each no_rope_layer_interval-th
  kByType,    // those with a window by another table than the others
};

// Where the norms of a layer are, and whether attention and feed-forward work in parallel.
enum class Norms {
  kBefore,
  kAfter,     // of what a block adds
  kAround,    // both
  kParallel,  // before, of the same stream
  kStream,    // of the stream behind each block, and none before the head
};

// What the sizes are called; empty: no key says it.
struct LlamaKeys {
  SizeKey width = {"hidden_size"};
  SizeKey ffn_width = {"intermediate_size"};
  SizeKey n_layers = {"num_hidden_layers"};
  SizeKey n_heads = {"num_attention_heads"};
  SizeKey max_positions = {"max_position_embeddings"};
};
// Of the classes that are made like GPT-2's.
inline constexpr LlamaKeys kGptKeys = {.width = {"n_embd", "hidden_size"},
                                       .ffn_width = {"n_inner"},
                                       .n_layers = {"n_layer", "num_hidden_layers"},
                                       .n_heads = {"n_head", "num_attention_heads"},
                                       .max_positions = {"n_positions", "max_position_embeddings"}};

// Latents of q and of k and v: what their sizes are where no key says it.
struct LatentRow {
  int64_t q_rank = 1536;  // q_lora_rank; null: none
  int64_t kv_rank = 512;
  int64_t nope_dim = 128;
  SizeKey rope_key = {"qk_rope_head_dim"};
  int64_t rope_dim = 64;
  int64_t v_dim = 128;
  bool head_dim_turns = true;               // head_dim must be rope_dim where it is there
  SwitchKey interleave = {.absent = true};  // RoPE turns neighbours, else halves
  double eps = 1e-6;                        // of their norms
};

struct LlamaRow {
  LlamaKeys keys = {};
  int64_t vocab_size = 32000;
  int64_t width = 4096;
  int64_t ffn_width = 11008;            // 0: four times the width, null too
  const ExpertsRow* experts = nullptr;  // null: every layer has a feed-forward
  const HybridRow* hybrid = nullptr;    // null: every layer has attention
  int64_t n_layers = 32;
  int64_t n_heads = 32;
  int64_t n_kv_heads = 0;     // 0: as many as heads
  int64_t head_dim = 0;       // 0: the width shared out
  bool shares_width = false;  // the width shared out, whatever head_dim says
  bool grouped = true;        // else as many kv heads as heads, whatever n_kv_heads_key says
  const char* n_kv_heads_key = "num_key_value_heads";
  const char* head_dim_key = "head_dim";
  bool null_head_dim = false;    // null: the width shared out, though an absent one is not
  int64_t max_positions = 2048;  // 0: unbounded
  bool learned_positions = false;
  bool sinusoids = false;  // positions of sines
  int64_t position_offset = 0;
  bool alibi = false;
  bool sinks = false;
  bool attention_gate = false;
  const LatentRow* latent = nullptr;  // null: none
  bool inner_norms = false;
  bool layers_own_config = false;  // per_layer_config is read apart
  const char* quantization = "";   // a method of quantization_config that can run
  const char* multi_query = "";    // a switch, true where it is absent: one kv head
  bool heads_in_quarters = false;  // their number is a multiple of 4
  double theta = 10000.0;
  // Of a head so much turns where no key says it. 0: all of it, whatever a key says.
  double rope_part = 0.0;
  RopeKeys rope_keys = {};
  bool scaled_by_default = false;  // without an object of RoPE's, the class scales it: refused
  RopePairing pairing = RopePairing::kHalfSplit;
  bool rope_backwards = false;
  NormKind norm = NormKind::kRmsNorm;
  const char* eps_key = "rms_norm_eps";  // empty: none
  double eps = 1e-6;
  bool norm_affine = true;
  bool norm_bias = false;
  float norm_offset = 0.0F;
  Norms norms = Norms::kBefore;
  SwitchKey norms_key = {.absent = true};  // without it kBefore
  SwitchKey qk_norm = {};
  QkNormKind qk_norm_kind = QkNormKind::kHeads;
  const char* activation_key = "hidden_act";  // empty: the first, no key says it
  std::span<const ActivationName> activations = kSiluNames;
  bool gated = true;
  SwitchKey qkv_bias = {};
  SwitchKey attn_out_bias = {};
  SwitchKey mlp_bias = {};
  bool biases_agree = false;  // all of them or none
  const char* tied_key = "";  // goes before tie_word_embeddings; empty: none
  bool tied_head = false;
  bool head_bias = false;
  bool embedding_norm = false;
  SwitchKey width_scales_embedding = {};  // by its square root
  const char* embedding_multiplier = "";  // keys; empty: none
  const char* residual_multiplier = "";
  const char* attention_multiplier = "";
  double attention_multiplier_absent = 1.0;  // 0: the usual scale
  double attention_scale = 0.0;              // of the scores; 0: the usual
  double query_scalar = 0.0;  // query_pre_attn_scalar where it is absent; 0: the family has none
  const char* logit_multiplier = "";
  double logit_multiplier_absent = 1.0;
  const char* logit_divisor = "";
  bool attention_caps = false;  // attn_logit_softcapping
  bool logit_caps = false;      // final_logit_softcapping
  double attention_cap = 0.0;   // where they are absent
  double logit_cap = 0.0;
  const char* clip = "";
  const char* without = "";        // a key that can run only where it says nothing
  const char* without_too = "";    // another
  const char* only_with = "";      // a switch that can run only as true, or absent
  const char* only_with_too = "";  // another
  const char* only_width = "";     // a size that can run only as the width, or absent
  WindowKeys windows = WindowKeys::kNone;
  const char* window_key = "sliding_window";
  int64_t window = 4096;  // where it is absent; 0: none
  // kTypes without layer_types: of each n layers one sees all keys, the first or the last; 0: none.
  int64_t full_every = 0;
  bool full_first = false;
  const char* pattern_key = "";  // says another n
  int64_t full_layers = 28;      // where max_window_layers is absent
  RopeLayers rope_layers = RopeLayers::kAll;
  double sliding_theta = 10000.0;  // kByType: of the other table, where it is not said
  const char* sliding_theta_key = "";
};

}  // namespace ng

#endif  // NG_CORE_MODEL_KEYS_LLAMA_ROW_H_
