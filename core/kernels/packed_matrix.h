// PackedMatrix: a weight matrix in the one layout that serves one row and many rows.
//
// 16 output columns lie side by side, so a kernel loads 16 weights and multiplies them by one
// broadcast input. N is padded to whole blocks with zero columns, K with zeros to whole pairs
// (bf16) or blocks of 32 (int8, int4):
//   f32   [N/16][K][16]
//   bf16  [N/16][K/2][16][2]     (pairs over k, as the bf16 dot product instructions read them)
//   f16   [N/16][K][16]
//   int8  [N/16][K/32]{ [8][16][4] bytes q + 128, [16] f16 scales }
//   int4  [N/16][K/32]{ [4][16][4] bytes, [16] f16 scales }
// An int8 weight is scale * q, q in [-128, 127]; an int4 weight scale * (q - 8), q in [0, 15]: the
// grids of Q8_0 and Q4_0. Byte i of int4 word g holds k = 8g + i in its lower and 8g + 4 + i in its
// upper four bits.
//
// Made and filled by the model loader, read by Matmul and by embedding look-ups. It shares in
// owning its memory; once filled it is read from any thread.
#ifndef NG_CORE_KERNELS_PACKED_MATRIX_H_
#define NG_CORE_KERNELS_PACKED_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/functional/function_ref.h"
#include "core/kernels/kernel_table.h"
#include "core/kernels/quantize.h"
#include "ng/executor.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

namespace ng {

class PackedMatrix {
 public:
  PackedMatrix() = default;

  // Bytes of a packed matrix of `n` outputs and `k` inputs, a multiple of 64; INT64_MAX when an
  // int64 cannot hold them, which no memory plan admits. REQUIRES: n, k >= 1.
  static int64_t PackedBytes(WeightType type, int64_t n, int64_t k);

  // An [n, k] matrix of zeros in memory of its own. Errors: LimitError. REQUIRES: n, k >= 1.
  static absl::StatusOr<PackedMatrix> Allocate(WeightType type, int64_t n, int64_t k);

  // The largest magnitude that a type holds; beyond it rounding would give infinity.
  static float MaxMagnitude(WeightType type);

  // Writes output columns [row, row + n_rows) from f32 rows, rounding each value once to the type.
  // rows: [n_rows, k]. The rows of a block may come in several calls; different threads may write
  // different rows. REQUIRES: the range lies in [0, n); no magnitude is above MaxMagnitude(type).
  void PackRows(int64_t row, int64_t n_rows, const float* rows);

  // The same from quantised blocks, which go in as they are. blocks: [n_rows, k / 32].
  // REQUIRES: the type is int8 or int4, and the blocks' q offset as its; k is a multiple of 32.
  void PackQuants(int64_t row, int64_t n_rows, const Quants* blocks);

  // Reads one row back as f32: an embedding look-up. out: [k]
  void CopyRow(int64_t row, float* out) const;

  WeightType type() const { return type_; }
  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  int64_t bytes() const { return data_ == nullptr ? 0 : PackedBytes(type_, n_, k_); }
  const std::byte* data() const { return data_.get(); }  // 64-byte aligned

 private:
  friend class WeightMemory;

  WeightType type_ = WeightType::kF32;
  int64_t n_ = 0;
  int64_t k_ = 0;
  std::shared_ptr<std::byte> data_;  // keeps all of its WeightMemory
};

// Memory that many matrices share, so that small ones lie on huge pages too: streaming through them
// then costs no address translation. From the operating system, all zeros. Pages are taken as they
// are written, so threads that pack also place them.
class WeightMemory {
 public:
  // Errors: LimitError when it cannot be had.
  static absl::StatusOr<WeightMemory> Reserve(int64_t bytes);

  // The next [n, k] matrix. Errors: LimitError when less than PackedBytes(type, n, k) are left.
  absl::StatusOr<PackedMatrix> Allocate(WeightType type, int64_t n, int64_t k);

 private:
  std::shared_ptr<std::byte> data_;
  int64_t size_ = 0;
  int64_t used_ = 0;
};

// The input rows of a matmul, rounded as the weights' kernels read them.
struct MatmulInput {
  const std::byte* data = nullptr;  // [n_rows], InputRowBytes(kernels.input[type], k) of each used
  int64_t n_rows = 0;
  int64_t k = 0;
  int64_t row_bytes = 0;  // from one row to the next
};

// out = x * w^T (+ bias), spread over the executor by columns, and by rows too where there are too
// few columns to occupy it evenly.
// out: [n_rows, n]; bias: [n] or null. REQUIRES: the extents agree; out overlaps nothing else.
// Errors: those of the executor.
absl::Status Matmul(const KernelTable& kernels, Executor& executor, const PackedMatrix& w,
                    const float* bias, const MatmulInput& x, const TensorView<float, 2>& out);

// Finished outputs, lent to the worker that made them while they are near.
struct MatmulTile {
  int64_t row = 0;
  int64_t n_rows = 0;
  int64_t column = 0;           // a multiple of 2 * kBlockColumns
  int64_t n_columns = 0;        // another, but for the last columns of all
  const float* data = nullptr;  // [n_rows, n_columns]
  int64_t stride = 0;           // from one row to the next
  const float* Row(int64_t r) const { return data + (r - row) * stride; }
};
using MatmulSink = absl::FunctionRef<void(const MatmulTile& tile)>;

// The same product, each output handed to `sink` once, in tiles, on a worker; none is stored. What
// follows an operator so needs no buffer and no region of its own.
// scratch: [MatmulScratchFloats(executor.threads(), n_rows)].
absl::Status Matmul(const KernelTable& kernels, Executor& executor, const PackedMatrix& w,
                    const float* bias, const MatmulInput& x, std::span<float> scratch,
                    MatmulSink sink);
int64_t MatmulScratchFloats(int threads, int64_t n_rows);

}  // namespace ng

#endif  // NG_CORE_KERNELS_PACKED_MATRIX_H_
