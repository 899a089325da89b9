// PackedMatrix: a weight matrix in the one layout that serves one row and many rows.
//
// 16 output columns lie side by side, so a kernel loads 16 weights and multiplies them by one
// broadcast input. N is padded to whole blocks with zero columns, K with zeros to whole pairs
// (bf16) or spans (grids):
//   f32   [N/16][K][16]
//   bf16  [N/16][K/2][16][2]     (pairs over k, as the bf16 dot product instructions read them)
//   f16   [N/16][K][16]
//   grids [N/16][K/span]{ [span/32]{ lower bits, upper bits },
//                         [groups][16] scales, [groups][16] minima, [16] f16 d, [16] f16 dmin }
// with what a grid lacks (weight_type.h) left out. 32 inputs are 8 words of 4, and a word's b bits
// lie in [16][4] bytes: those of word i in bytes i * b / 8, from bit i * b % 8 on. So one load and
// one mask give 4 inputs of 16 columns: of int8 as they are, of int4 from the lower half of the
// bytes and then from the upper.
//
// A matrix may consist of bands of columns, each of a type of its own, as q, k and v may be.
//
// Made and filled by the model loader, read by Matmul and by embedding look-ups. It shares in
// owning its memory; once filled it is read from any thread.
#ifndef NG_CORE_KERNELS_PACKED_MATRIX_H_
#define NG_CORE_KERNELS_PACKED_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/kernels/kernel_table.h"
#include "ng/executor.h"
#include "ng/status.h"
#include "ng/tensor_view.h"

namespace ng {

// Column blocks side by side that are held alike.
struct WeightBand {
  WeightType type = WeightType::kF32;
  int64_t n_blocks = 0;
};

class PackedMatrix {
 public:
  // One band of the matrix, where it lies.
  struct Band {
    WeightType type = WeightType::kF32;
    int64_t block_begin = 0;
    int64_t block_end = 0;
    std::byte* data = nullptr;  // of its first block, 64-byte aligned
  };

  PackedMatrix() = default;

  // Bytes of a packed matrix of `n` outputs and `k` inputs, a multiple of 64; INT64_MAX when an
  // int64 cannot hold them, which no memory plan admits. REQUIRES: n, k >= 1.
  static int64_t PackedBytes(WeightType type, int64_t n, int64_t k);
  static int64_t PackedBytes(std::span<const WeightBand> bands, int64_t k);

  // An [n, k] matrix of zeros in memory of its own. Errors: LimitError. REQUIRES: n, k >= 1.
  static absl::StatusOr<PackedMatrix> Allocate(WeightType type, int64_t n, int64_t k);

  // The largest magnitude that a type holds; beyond it rounding would give infinity.
  // REQUIRES (as PackRows): the type is f32, bf16, f16, int8 or int4.
  static float MaxMagnitude(WeightType type);

  // Writes output columns [row, row + n_rows) from f32 rows, rounding each value once to the type.
  // rows: [n_rows, k]. The rows of a block may come in several calls; different threads may write
  // different rows. REQUIRES: the range lies in [0, n); no magnitude is above MaxMagnitude(type).
  void PackRows(int64_t row, int64_t n_rows, const float* rows);

  // The same of rows of a grid from their own spans, which go in as they are. `read` is asked for a
  // few at a time: spans [first, first + spans.size() / rows.size()) of each row.
  // spans: [rows.size(), a few]
  // REQUIRES: the rows ascend in one block of 16, and their type is the grid; k is a multiple of
  // its span.
  using SpanReader = absl::FunctionRef<void(int64_t first, std::span<QuantSpan> spans)>;
  void PackSpans(std::span<const int64_t> rows, SpanReader read);

  // The same of floats that are stored as the matrix holds them. rows: [n_rows, k] elements.
  // REQUIRES: the type is f32, f16 or, with an even k, bf16.
  void PackStored(int64_t row, int64_t n_rows, const std::byte* rows);

  // Reads one row back as f32: an embedding look-up. out: [k]
  void CopyRow(int64_t row, float* out) const;

  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  int64_t bytes() const { return bytes_; }
  const std::byte* data() const { return data_.get(); }  // 64-byte aligned
  // The types of several bands read the same input: all are grids.
  std::span<const Band> bands() const { return bands_; }
  // Of the band that holds a row. REQUIRES: n() > row.
  WeightType type(int64_t row = 0) const { return BandOf(row).type; }

 private:
  friend class WeightMemory;

  const Band& BandOf(int64_t row) const;
  std::byte* BlockOf(const Band& band, int64_t row) const;

  int64_t n_ = 0;
  int64_t k_ = 0;
  int64_t bytes_ = 0;
  std::vector<Band> bands_;
  std::shared_ptr<std::byte> data_;  // keeps all of its WeightMemory
};

// Memory that many matrices share, so that small ones lie on huge pages too: streaming through them
// then costs no address translation. From the operating system, all zeros. Pages are taken as they
// are written, so threads that pack also place them.
class WeightMemory {
 public:
  // Errors: LimitError when it cannot be had.
  static absl::StatusOr<WeightMemory> Reserve(int64_t bytes);

  // The next [n, k] matrix. Errors: LimitError when less than its PackedBytes are left.
  // REQUIRES: the bands make up its blocks, and are grids if there are several.
  absl::StatusOr<PackedMatrix> Allocate(std::span<const WeightBand> bands, int64_t n, int64_t k);
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
