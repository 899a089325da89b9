// ModelSpec: what the decoder needs to know about a model. Data, and not a class per family.
//
// Read from a config.json by the model's family (families.h); the decoder branches on its fields.
#ifndef NG_CORE_MODEL_MODEL_SPEC_H_
#define NG_CORE_MODEL_MODEL_SPEC_H_

#include <cstdint>
#include <string>

#include "core/kernels/kernel_table.h"
#include "ng/plugin.h"

namespace ng {

enum class NormKind { kRmsNorm, kLayerNorm };
enum class PositionKind { kRope, kLearned };
enum class Activation { kSwiGlu, kGeluErf, kGeluTanh };

struct ModelSpec {
  std::string family;  // "niels-gpt"
  ModelShape shape;
  int64_t width = 0;      // the residual stream
  int64_t ffn_width = 0;  // the feed-forward layer's inner width

  NormKind norm = NormKind::kRmsNorm;
  float norm_eps = 0.0F;
  PositionKind position = PositionKind::kRope;
  RopePairing rope_pairing = RopePairing::kInterleaved;
  double rope_theta = 0.0;
  Activation activation = Activation::kSwiGlu;

  bool norm_bias = false;
  bool qkv_bias = false;
  bool attn_out_bias = false;
  bool mlp_bias = false;
  bool tied_head = true;  // the head is the token embedding

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
