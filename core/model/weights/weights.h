// The weights of a decoder, packed as the kernels read them.
#ifndef NG_CORE_MODEL_WEIGHTS_WEIGHTS_H_
#define NG_CORE_MODEL_WEIGHTS_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "core/kernels/packed_matrix.h"
#include "core/model/weights/weight_types.h"

namespace ng {

// What a model does not have is empty.
struct NormWeights {
  std::vector<float> weight;  // [width]
  std::vector<float> bias;    // [width]
};

// What a block computes with. Of a mixture that is its shared feed-forward.
struct MatrixPair {
  // [in_width, width]: q rows, then k, then v, then the gate, or the latents, or those of a state;
  // or [gate_up_width, width]
  PackedMatrix in;
  std::vector<float> in_bias;   // [in.n]
  PackedMatrix out;             // [width, out_width], or [width, the feed-forward's width]
  std::vector<float> out_bias;  // [width]
  std::vector<float> xielu;     // [4] of the activation of that name
};

// What a state has besides its matrices.
struct StateWeights {
  std::vector<float> conv;       // [taps, conv_width], the last tap is the token's own
  std::vector<float> conv_bias;  // [conv_width]
  std::vector<float> decay_log;  // [n_heads]
  std::vector<float> step_bias;  // [n_heads]
  std::vector<float> skip;       // [n_heads]
  std::vector<float> norm;       // [value_dim], or with kMamba2 [out_width]
};

// Of one block. A norm without weights has ones.
struct BlockWeights : MatrixPair {
  NormWeights before;
  NormWeights inner;  // [out.k]
  NormWeights after;
  NormWeights stream_norm;
  std::vector<float> stream_factor;  // [1]
  NormWeights q_norm;                // [head_dim], [n_heads, head_dim] or [q_width]
  NormWeights k_norm;                // the same of the heads of k
  NormWeights v_norm;                // [head_dim of v]
  // Of latents, whose norms q_norm and k_norm are [rank].
  PackedMatrix q_up;              // [own_q_width, q_rank]
  std::vector<MatrixPair> heads;  // [n_heads] of [kv_rank, nope_dim] and [value_dim, kv_rank]
  std::vector<float> sinks;       // [n_heads]
  StateWeights state;
  std::vector<MatrixPair> experts;    // [n_experts]
  PackedMatrix router;                // [n_logits, width] of f32: the shared one's gate last
  std::vector<float> router_bias;     // [n_logits]
  std::vector<float> selection_bias;  // [n_experts]
  std::vector<float> expert_scales;   // [n_experts]
  NormWeights router_norm;
  NormWeights shared_norm;
  NormWeights shared_after;
  NormWeights experts_after;
};

struct ModelWeights {
  WeightTypes types;                // what the matrices are held as
  PackedMatrix embedding;           // [vocab_size, width]
  std::vector<float> positions;     // [position_offset + max_positions, width]
  std::vector<float> rope_factors;  // [n_dims / 2] of the tables of RoPE with factors, above 0
  PackedMatrix layer_embedding;     // [vocab_size, n_layers * the layers' input width]
  PackedMatrix layer_projection;    // [n_layers * the layers' input width, width]
  PackedMatrix head;                // [vocab_size, width]; empty: tied to the embedding
  std::vector<float> head_bias;     // [vocab_size]
  NormWeights embedding_norm;
  NormWeights layer_input_norm;  // [the layers' input width]
  NormWeights final_norm;
  std::vector<std::vector<BlockWeights>> layers;  // [n_layers][blocks]
  uint64_t hash = 0;  // of the bytes of all tensors, as they were read; 0 unless asked for
};

}  // namespace ng

#endif  // NG_CORE_MODEL_WEIGHTS_WEIGHTS_H_
