// The rows of a step through a state: what a block has in place of attention.
//
// Called by the decoder. Each sequence's tokens go through one after the other, in the same
// operations whatever else is in the step; work is shared out by columns and heads.
#ifndef NG_CORE_MODEL_OPS_STATE_BLOCK_H_
#define NG_CORE_MODEL_OPS_STATE_BLOCK_H_

#include <cstddef>
#include <span>

#include "core/kernels/kernel_table.h"
#include "core/model/ops/state_store.h"
#include "core/model/spec/model_spec.h"
#include "core/model/weights/weights.h"
#include "ng/cache_store.h"
#include "ng/executor.h"
#include "ng/status.h"

namespace ng {

// Everything is borrowed.
struct StateCall {
  const KernelTable& kernels;
  Executor& executor;
  const StateSpec& spec;
  const BlockWeights& w;
  StateStore& store;
  size_t index;  // of the layer among those with a state
};

// x: [n_rows, in_width], what the first matrix gave; it is overwritten. out: [n_rows, out_width].
// Writes the next state of each sequence. Allocates nothing.
absl::Status RunState(const StateCall& call, std::span<const SequenceRows> rows, float* x,
                      float* out);

}  // namespace ng

#endif  // NG_CORE_MODEL_OPS_STATE_BLOCK_H_
