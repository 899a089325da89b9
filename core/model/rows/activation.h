// What a feed-forward does between its two matrices.
#ifndef NG_CORE_MODEL_ROWS_ACTIVATION_H_
#define NG_CORE_MODEL_ROWS_ACTIVATION_H_

#include "core/kernels/kernel_table.h"
#include "core/kernels/matmul.h"
#include "core/model/spec/model_spec.h"
#include "core/model/weights/weights.h"

namespace ng {

// From one tile of gate and up, or of up alone, to its part of `activated`: [n_rows, width], row 0
// that of the product. w: the weights of the feed-forward. [worker]
void ActivateTile(const KernelTable& kernels, const FeedForwardSpec& feed_forward,
                  const MatrixPair& w, const MatmulTile& gate_up, float* activated);

}  // namespace ng

#endif  // NG_CORE_MODEL_ROWS_ACTIVATION_H_
