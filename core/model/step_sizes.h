// How large a step's buffers are: what the decoder makes room for, and what a plan counts before
// there is a decoder. Sizes that no machine has saturate.
#ifndef NG_CORE_MODEL_STEP_SIZES_H_
#define NG_CORE_MODEL_STEP_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "core/model/model_spec.h"
#include "core/model/weight_types.h"

namespace ng {

struct StepExtent {
  int64_t n_rows = 0;        // tokens of all sequences
  int64_t n_logit_rows = 0;  // of these with logits
  int threads = 1;
};

// Floats of each of the decoder's buffers, and of `input` bytes.
struct StepSizes {
  int64_t hidden = 0;
  int64_t normed = 0;
  int64_t kept = 0;
  int64_t added = 0;
  int64_t qkv = 0;
  int64_t attended = 0;
  int64_t activated = 0;
  int64_t strips = 0;
  int64_t logits = 0;
  int64_t input = 0;

  int64_t bytes() const;  // of all
};

// The buffers of a step. They only ever grow, so a decode step allocates nothing.
struct Activations {
  std::vector<float> hidden;     // [n_rows, width]
  std::vector<float> normed;     // [threads, width]: each worker's row
  std::vector<float> kept;       // [n_rows, width]: the stream that blocks in parallel read
  std::vector<float> added;      // [n_rows, width]: what a block adds, before a norm of it
  std::vector<float> qkv;        // [n_rows, qkv_width]
  std::vector<float> attended;   // [n_rows, q_width]
  std::vector<float> activated;  // [n_rows, the feed-forward's width]
  std::vector<float> strips;     // the matmuls' scratch
  std::vector<float> logits;     // [n_logit_rows, vocab_size]
  std::vector<std::byte> input;  // [n_rows, input_row_bytes]: rounded for a matmul

  void Grow(const StepSizes& sizes);
};

// Makes a buffer at least so large; it keeps the most that any step has needed.
template <typename Element>
void GrowTo(std::vector<Element>& buffer, int64_t size) {
  if (std::ssize(buffer) < size) buffer.resize(static_cast<size_t>(size));
}

// The widest row that any matmul of a model reads, as its kernels want it.
int64_t InputRowBytesOf(const KernelTable& kernels, const ModelSpec& spec,
                        const WeightTypes& types);

StepSizes SizesOfStep(const ModelSpec& spec, int64_t input_row_bytes, const StepExtent& extent);

// Cosines and sines of so many positions, of all tables.
int64_t RopeTableBytes(const ModelSpec& spec, int64_t n_positions);

}  // namespace ng

#endif  // NG_CORE_MODEL_STEP_SIZES_H_
