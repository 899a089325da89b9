// PackedMatrix: a weight matrix in the one layout that serves one row and many rows.
//
// 16 output columns lie side by side, so a kernel loads 16 weights and multiplies them by one
// broadcast input. N is padded to whole blocks with zero columns; bf16 also pads an odd K with a
// zero:
//   f32   [N/16][K][16]
//   bf16  [N/16][K/2][16][2]     (pairs over k, as the bf16 dot product instructions read them)
//   f16   [N/16][K][16]
//
// Made and filled by the model loader, read by Matmul and by embedding look-ups. It owns its
// memory; once filled it is read from any thread.
#ifndef NG_CORE_KERNELS_PACKED_MATRIX_H_
#define NG_CORE_KERNELS_PACKED_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/kernels/kernel_table.h"
#include "ng/executor.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

namespace ng {

class PackedMatrix {
 public:
  PackedMatrix() = default;

  // Bytes of a packed matrix of `n` outputs and `k` inputs; INT64_MAX when an int64 cannot hold
  // them, which no memory plan admits. REQUIRES: n, k >= 1.
  static int64_t PackedBytes(WeightType type, int64_t n, int64_t k);

  // Reserves the memory of an [n, k] matrix, all zeros, from the operating system. Pages are taken
  // as they are written, so threads that pack also place them. Errors: LimitError when it cannot be
  // had. REQUIRES: n, k >= 1.
  static absl::StatusOr<PackedMatrix> Allocate(WeightType type, int64_t n, int64_t k);

  // Writes output columns [row, row + n_rows) from f32 rows, rounding each value once to the type.
  // rows: [n_rows, k]. The rows of a block may come in several calls; different threads may write
  // different rows. REQUIRES: the range lies in [0, n).
  void PackRows(int64_t row, int64_t n_rows, const float* rows);

  // Reads one row back as f32: an embedding look-up. out: [k]
  void CopyRow(int64_t row, float* out) const;

  WeightType type() const { return type_; }
  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  int64_t bytes() const { return data_ == nullptr ? 0 : PackedBytes(type_, n_, k_); }
  const std::byte* data() const { return data_.get(); }  // 64-byte aligned

 private:
  struct Unmap {
    size_t bytes;
    void operator()(std::byte* p) const;
  };

  WeightType type_ = WeightType::kF32;
  int64_t n_ = 0;
  int64_t k_ = 0;
  std::unique_ptr<std::byte[], Unmap> data_;
};

// out = x * w^T (+ bias), spread over the executor by column blocks, and by rows too where there
// are too few blocks to occupy it evenly.
// x: [n_rows, k], out: [n_rows, n]; bias: [n] or null. REQUIRES: the extents agree; out overlaps
// nothing else. Errors: those of the executor.
absl::Status Matmul(const KernelTable& kernels, Executor& executor, const PackedMatrix& w,
                    const float* bias, const TensorView<const float, 2>& x,
                    const TensorView<float, 2>& out);

}  // namespace ng

#endif  // NG_CORE_KERNELS_PACKED_MATRIX_H_
