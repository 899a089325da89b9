// ModelSpec: what the decoder needs to know about a model. Data, and not a class per family.
//
// Read from a model's own metadata by its family (families.h); the decoder branches on its fields.
#ifndef NG_CORE_MODEL_MODEL_SPEC_H_
#define NG_CORE_MODEL_MODEL_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "ng/plugin.h"

namespace ng {

enum class NormKind { kRmsNorm, kLayerNorm };
// h += f(norm(h)), and a norm before the head; or h = norm(h + f(h)), and none before the head.
enum class NormPlacement { kPre, kPost };
enum class PositionKind { kRope, kLearned };
enum class Activation { kSwiGlu, kGeluErf, kGeluTanh };

// How RoPE's frequencies are stretched over more positions than a model was first trained on.
enum class RopeScalingKind { kNone, kLinear, kLlama3 };

struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kNone;
  double factor = 1.0;
  // llama3: what turns fewer than low_freq_factor times over the original positions is slowed by
  // the factor, what turns more than high_freq_factor times is left, and in between both blend.
  double low_freq_factor = 0.0;
  double high_freq_factor = 0.0;  // > low_freq_factor
  int64_t original_positions = 0;

  bool operator==(const RopeScaling&) const = default;
};

struct ModelSpec {
  std::string family;  // "niels-gpt"
  ModelShape shape;
  int64_t width = 0;      // the residual stream
  int64_t ffn_width = 0;  // the feed-forward layer's inner width

  NormKind norm = NormKind::kRmsNorm;
  NormPlacement norm_placement = NormPlacement::kPre;
  float norm_eps = 0.0F;
  PositionKind position = PositionKind::kRope;
  RopePairing rope_pairing = RopePairing::kInterleaved;
  double rope_theta = 0.0;
  RopeScaling rope_scaling;
  bool rope_factors = false;  // each frequency is divided by a factor of its own, in a tensor
  Activation activation = Activation::kSwiGlu;
  int64_t window = 0;  // keys that a query sees, its own included; 0: all
  // [n_layers]: the layers where it sees all of them nevertheless. Empty: none.
  std::vector<bool> full_layers;
  // A run's last token, which nothing follows, needs no position.
  bool last_without_position = false;

  bool norm_affine = true;  // the norms have weights
  bool norm_bias = false;
  bool qk_norm = false;  // RMSNorm of each head of q and k, before RoPE
  bool qkv_bias = false;
  bool attn_out_bias = false;
  bool mlp_bias = false;
  bool tied_head = true;  // the head is the token embedding

  // The most tokens of a run, prompt and new ones; 0: unbounded.
  int64_t context() const {
    return shape.max_positions == 0 ? 0 : shape.max_positions + (last_without_position ? 1 : 0);
  }
  int64_t WindowOf(int layer) const {
    return !full_layers.empty() && full_layers[static_cast<size_t>(layer)] ? 0 : window;
  }
  int64_t q_width() const { return int64_t{shape.n_heads} * shape.head_dim; }
  int64_t kv_width() const { return int64_t{shape.n_kv_heads} * shape.head_dim; }
  int64_t qkv_width() const { return q_width() + 2 * kv_width(); }
  bool gated() const { return activation == Activation::kSwiGlu; }
  // What the feed-forward layer's first matrix gives: 16 columns of gate and 16 of up in turn, so
  // that one worker has both, or up alone.
  int64_t gate_up_width() const { return gated() ? (ffn_width + 15) / 16 * 32 : ffn_width; }
};

}  // namespace ng

#endif  // NG_CORE_MODEL_MODEL_SPEC_H_
