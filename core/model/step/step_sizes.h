// How large a step's buffers are: what the decoder makes room for, and what a plan counts before
// there is a decoder. Sizes that no machine has saturate.
#ifndef NG_CORE_MODEL_STEP_STEP_SIZES_H_
#define NG_CORE_MODEL_STEP_STEP_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "core/kernels/matmul.h"
#include "core/model/spec/model_spec.h"
#include "core/model/weights/rank_split.h"
#include "core/model/weights/weight_types.h"

namespace ng {

struct StepExtent {
  int64_t n_rows = 0;        // tokens of all sequences
  int64_t n_logit_rows = 0;  // of these with logits
  int threads = 1;
};

// The widest rows that the matmuls of a model read, in bytes, as its kernels want them; and those
// that ranks give between the matrices of a block, in floats.
struct WidestRows {
  int64_t block = 0;
  int64_t expert = 0;
  int64_t shared = 0;  // of the feed-forward beside experts
  int64_t given = 0;
  int64_t given_mixture = 0;
};
WidestRows WidestRowsOf(const KernelTable& kernels, const ModelSpec& spec,
                        const WeightTypes& types);

// A mixture takes so many rows of a step at a time.
inline constexpr int64_t kMixtureRows = 1024;

// Elements of each of MixtureBuffers.
struct MixtureSizes {
  int64_t normed = 0;
  int64_t router_rows = 0;
  int64_t shared_rows = 0;
  int64_t logits = 0;
  int64_t chosen = 0;
  int64_t weights = 0;
  int64_t ends = 0;
  int64_t activated = 0;
  int64_t outputs = 0;
  int64_t strips = 0;
  int64_t input = 0;
  int64_t parts = 0;

  int64_t bytes() const;
};

struct MatrixPair;

// One feed-forward in use, and its slots.
struct MixturePart {
  const FeedForwardSpec* spec = nullptr;
  const MatrixPair* weights = nullptr;
  int64_t first = 0;
  int64_t n_slots = 0;
};

// What a mixture computes with, for n_rows rows at a time. A slot is a row with one of its experts;
// they are in the order of the experts, and behind them, for all rows, is the shared one.
struct MixtureBuffers {
  std::vector<float> normed;       // [n_rows, width]: what router, experts and the shared one read
  std::vector<float> router_rows;  // [n_rows, width]: the router, where norms are apart
  std::vector<float> shared_rows;  // [n_rows, width]: the shared one, where norms are apart
  std::vector<float> logits;       // [n_rows, n_logits + n_experts]: also what is compared
  std::vector<int32_t> chosen;     // [n_rows, n_used]: experts, then their slots
  std::vector<float> weights;      // [n_rows, n_used], then the shared one's [n_rows]
  std::vector<int32_t> ends;       // [n_experts]: of the slots of each
  std::vector<float> activated;    // [slots, the expert's width], then [n_rows, the shared one's]
  std::vector<float> outputs;      // [n_slots, width]
  std::vector<float> slot_rows;    // [n_slots, width]: what experts read, for adapters; else empty
  std::vector<int32_t> slot_sets;  // [n_slots]: the row's adapters, where rows have different ones
  std::vector<float> strips;       // the matmuls' scratch
  std::vector<std::byte> input;    // of each slot, rounded for a matmul
  std::vector<MixturePart> parts;  // with room for all
  std::vector<MatmulCall> calls;   // the same

  void Grow(const MixtureSizes& sizes);
};

// Floats of each of the decoder's buffers, and of `input` bytes.
struct StepSizes {
  int64_t hidden = 0;
  int64_t normed = 0;
  int64_t kept = 0;
  int64_t added = 0;
  int64_t qkv = 0;
  int64_t latent = 0;
  int64_t heads = 0;
  int64_t layer_inputs = 0;
  int64_t layer_rows = 0;
  int64_t attended = 0;
  int64_t activated = 0;
  int64_t strips = 0;
  int64_t logits = 0;
  int64_t input = 0;
  int64_t calls = 0;
  int64_t gathered = 0;
  int64_t staged = 0;  // of a RankLink
  MixtureSizes mixture = {};

  int64_t bytes() const;  // of all
};

// The buffers of a step. They only ever grow, so a decode step allocates nothing.
struct Activations {
  std::vector<float> hidden;  // [n_rows, width]
  std::vector<float> normed;  // [threads, width]: each worker's row
  std::vector<float> kept;    // [n_rows, width]: the stream that blocks in parallel read
  std::vector<float> added;   // [n_rows, width]: what a block adds, before a norm of it
  std::vector<float> qkv;     // [n_rows, row_width]: q, k, v and the gate; or those of a state
  std::vector<float> latent;  // [n_rows, in_width] of attention with latents
  // [n_rows, own_q_width] or [n_rows, out_width] of the same: the heads as the model has them
  std::vector<float> heads;
  std::vector<float> layer_inputs;  // [n_rows, n_layers, the layers' input width]
  std::vector<float> layer_rows;    // [threads, n_layers, the same]: each worker's row
  std::vector<float> attended;      // [n_rows, attended_width], or the out_width of a state
  std::vector<float> activated;     // [n_rows, the feed-forward's width]
  std::vector<float> strips;        // the matmuls' scratch
  std::vector<float> logits;        // [n_logit_rows, vocab_size]
  std::vector<std::byte> input;     // [n_rows, input_row_bytes]: rounded for a matmul
  std::vector<MatmulCall> calls;    // with room for one of each head with latents
  // [n_rows, q_width] and [n_rows, k_width]: of all ranks, where a norm is over them, or somebody
  // looks
  std::vector<float> gathered;
  std::vector<float> shown;  // [n_rows, width]: a norm that somebody looks at; else empty
  MixtureBuffers mixture;

  void Grow(const StepSizes& sizes);
};

// Makes a buffer at least so large; it keeps the most that any step has needed.
template <typename Element>
void GrowTo(std::vector<Element>& buffer, int64_t size) {
  if (std::ssize(buffer) < size) buffer.resize(static_cast<size_t>(size));
}

// Called at every step: allocates nothing. `parts`: of this spec.
StepSizes SizesOfStep(const ModelSpec& spec, const RankParts& parts, const WidestRows& input_rows,
                      const StepExtent& extent);

// Of a row, the most floats that ranks give in one gather, where nobody looks and no experts are.
int64_t StagedRowFloats(const ModelSpec& spec, const WidestRows& input_rows);

// Cosines and sines of so many positions, of all tables.
int64_t RopeTableBytes(const ModelSpec& spec, int64_t n_positions);

}  // namespace ng

#endif  // NG_CORE_MODEL_STEP_STEP_SIZES_H_
