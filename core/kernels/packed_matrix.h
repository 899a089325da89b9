// PackedMatrix: a weight matrix in the one layout that serves one row and many rows.
//
// 16 output columns lie side by side, so a kernel loads 16 weights and multiplies them by one
// broadcast input; N is padded to whole blocks with zero columns, K to a pair with zeros:
//   f32   [N/16][K][16]
//   bf16  [N/16][K/2][16][2]     (pairs over k, as the bf16 dot product instructions read them)
//   f16   [N/16][K][16]
#ifndef NG_CORE_KERNELS_PACKED_MATRIX_H_
#define NG_CORE_KERNELS_PACKED_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/kernels/kernel_table.h"
#include "ng/executor.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

namespace ng {

class PackedMatrix {
 public:
  PackedMatrix() = default;

  // Bytes of a packed matrix of `n` outputs and `k` inputs.
  static int64_t PackedBytes(WeightType type, int64_t n, int64_t k);

  // Reserves the memory of an [n, k] matrix. Errors: LimitError when it cannot be had.
  static absl::StatusOr<PackedMatrix> Allocate(WeightType type, int64_t n, int64_t k);

  // Writes output columns [row, row + n_rows) from f32 rows, rounding each value once to the type.
  // rows: [n_rows, k]. Different column blocks may be written by different threads.
  void PackRows(int64_t row, int64_t n_rows, const float* rows);

  // Reads one row back as f32: an embedding look-up. out: [k]
  void CopyRow(int64_t row, float* out) const;

  WeightType type() const { return type_; }
  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  int64_t bytes() const { return PackedBytes(type_, n_, k_); }
  const std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };

  WeightType type_ = WeightType::kF32;
  int64_t n_ = 0;
  int64_t k_ = 0;
  std::unique_ptr<std::byte[], Free> data_;  // 64-byte aligned
};

// out = x * w^T (+ bias), spread over the executor by column blocks.
// x: [n_rows, k], out: [n_rows, n]; bias: [n] or null.
absl::Status Matmul(const KernelTable& kernels, Executor& executor, const PackedMatrix& w,
                    const float* bias, const TensorView<const float, 2>& x,
                    const TensorView<float, 2>& out);

}  // namespace ng

#endif  // NG_CORE_KERNELS_PACKED_MATRIX_H_
