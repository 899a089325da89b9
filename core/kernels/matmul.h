// Matmul: prepared rows times a packed matrix, spread over the threads.
//
// Called by the decoder on the engine's thread; the work is done by the executor's workers.
#ifndef NG_CORE_KERNELS_MATMUL_H_
#define NG_CORE_KERNELS_MATMUL_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"
#include "core/kernels/kernel_table.h"
#include "core/kernels/low_rank.h"
#include "core/kernels/packed_matrix.h"
#include "ng/executor.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

namespace ng {

// The input rows of a matmul, rounded as the weights' kernels read them.
struct MatmulInput {
  const std::byte* data = nullptr;  // [n_rows]; each uses InputRowBytes(kernels.input[type], k)
  int64_t n_rows = 0;
  int64_t k = 0;
  int64_t row_bytes = 0;  // from one row to the next
  // What adapters add to the product; rows apart from each other. Empty: nothing.
  std::span<const LowRankRows> low_ranks = {};
};

// Rows of floats, for weights whose kernels read these as they are. x: [n_rows, k].
inline MatmulInput FloatRows(const float* x, int64_t n_rows, int64_t k) {
  return {reinterpret_cast<const std::byte*>(x), n_rows, k, k * int64_t{sizeof(float)}};
}
// The same, `stride` floats from one row to the next.
inline MatmulInput FloatRows(const float* x, int64_t n_rows, int64_t k, int64_t stride) {
  return {reinterpret_cast<const std::byte*>(x), n_rows, k, stride * int64_t{sizeof(float)}};
}

// x * w^T (+ bias), and then what adapters add. Everything is borrowed. REQUIRES: x.k == w.k().
struct MatmulCall {
  const KernelTable& kernels;
  Executor& executor;
  const PackedMatrix& w;
  const float* bias = nullptr;  // [n] or null
  MatmulInput x;
};

// Computes the product into `out`. The work is spread over the executor by columns, and also by
// rows where there are too few columns for all threads. out: [n_rows, n], overlaps nothing else.
// Errors: those of the executor.
absl::Status Matmul(const MatmulCall& call, const TensorView<float, 2>& out);

// Finished outputs, lent to the worker that made them while they are in its caches.
struct MatmulTile {
  int64_t row = 0;
  int64_t n_rows = 0;
  int64_t column = 0;           // a multiple of 2 * kBlockColumns
  int64_t n_columns = 0;        // a multiple too, except for the last columns of the matrix
  const float* data = nullptr;  // [n_rows, n_columns]
  int64_t stride = 0;           // from one row to the next
  const float* Row(int64_t r) const { return data + (r - row) * stride; }
};
using MatmulSink = absl::FunctionRef<void(const MatmulTile& tile)>;

// The same product, but no output is stored: each is given to `sink` once, in tiles, on a worker.
// So an operation that follows the matmul needs no buffer and no parallel region of its own.
// scratch: [MatmulScratchFloats(executor.threads(), n_rows)].
absl::Status Matmul(const MatmulCall& call, std::span<float> scratch, MatmulSink sink);
int64_t MatmulScratchFloats(int threads, int64_t n_rows);

// Several products in one parallel region, which all threads share by how much work each is. `sink`
// is told which call a tile is of. Bits are those of each call by itself.
// REQUIRES: the calls have one executor. scratch: [MatmulScratchFloats(threads, most rows)].
using MatmulsSink = absl::FunctionRef<void(size_t call, const MatmulTile& tile)>;
absl::Status Matmuls(std::span<const MatmulCall> calls, std::span<float> scratch, MatmulsSink sink);

}  // namespace ng

#endif  // NG_CORE_KERNELS_MATMUL_H_
