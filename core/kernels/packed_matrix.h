// PackedMatrix: a weight matrix in a layout that is good for one input row and for many.
//
// 16 output columns lie side by side, so a kernel loads 16 weights and multiplies them by one
// broadcast input. N is padded with zero columns to whole blocks. K is padded with zeros to whole
// pairs (bf16) or spans (grids):
//   f32   [N/16][K][16]
//   bf16  [N/16][K/2][16][2]     (pairs over k, as the bf16 dot product instructions read them)
//   f16   [N/16][K][16]
//   grids [N/16][K/span]{ [span/32]{ lower bits, upper bits },
//                         [groups][16] scales, [groups][16] minima, [16] f16 d, [16] f16 dmin }
// A d that is a power of two is one byte; some grids have f32 in place of f16. A grid that lacks a
// part (weight_type.h) leaves it out. 32 inputs are 8 words of 4 inputs. The b bits of the inputs
// of a word are in [16][4] bytes: those of word i are in the bytes i * b / 8, from bit i * b % 8
// on. So one load and one mask give 4 inputs of 16 columns. For int8 they are the bytes themselves;
// for int4 first the lower half of the bytes, then the upper half. Of floats of 8 bits 16 bytes of
// a word are [2][4][2]: the first two inputs of four columns, then the other two.
//
// A matrix may consist of bands of columns with a type each, as q, k and v may have.
//
// The model loader makes and fills it; Matmul and embedding look-ups read it. It shares the
// ownership of its memory. Once it is filled, any thread may read it.
#ifndef NG_CORE_KERNELS_PACKED_MATRIX_H_
#define NG_CORE_KERNELS_PACKED_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/kernels/kernel_table.h"
#include "ng/status.h"

namespace ng {

// Neighbouring column blocks with the same type.
struct WeightBand {
  WeightType type = WeightType::kF32;
  int64_t n_blocks = 0;
};

class PackedMatrix {
 public:
  // One band of the matrix and its place.
  struct Band {
    WeightType type = WeightType::kF32;
    int64_t block_begin = 0;
    int64_t block_end = 0;
    std::byte* data = nullptr;  // its first block, 64-byte aligned
  };

  PackedMatrix() = default;

  // Bytes of a packed matrix of `n` outputs and `k` inputs, a multiple of 64. INT64_MAX when an
  // int64 cannot hold them; no memory plan accepts that. REQUIRES: n, k >= 1.
  static int64_t PackedBytes(WeightType type, int64_t n, int64_t k);
  static int64_t PackedBytes(std::span<const WeightBand> bands, int64_t k);

  // An [n, k] matrix of zeros in memory of its own. Errors: LimitError. REQUIRES: n, k >= 1.
  static absl::StatusOr<PackedMatrix> Allocate(WeightType type, int64_t n, int64_t k);

  // The largest magnitude that a type holds; beyond it rounding would give infinity.
  // REQUIRES: the type is f32, bf16, f16, int8 or int4, as for PackRows.
  static float MaxMagnitude(WeightType type);

  // Writes output columns [row, row + n_rows) from f32 rows, rounding each value once to the type.
  // rows: [n_rows, k]. The rows of a block may come in several calls; different threads may write
  // different rows. REQUIRES: the range lies in [0, n); no magnitude is above MaxMagnitude(type).
  void PackRows(int64_t row, int64_t n_rows, const float* rows);

  // Writes rows of a grid from spans of the same grid, which are stored unchanged. `read` must fill
  // a few spans of each row at a time: spans [first, first + spans.size() / rows.size()). spans:
  // [rows.size(), a few] REQUIRES: the rows rise and are in one block of 16; their type is the
  // grid; k is a multiple of its span.
  using SpanReader = absl::FunctionRef<void(int64_t first, std::span<QuantSpan> spans)>;
  void PackSpans(std::span<const int64_t> rows, SpanReader read);

  // Writes rows of floats that are already of the matrix's type. rows: [n_rows, k] elements.
  // REQUIRES: the type is f32, f16 or, with an even k, bf16.
  void PackStored(int64_t row, int64_t n_rows, const std::byte* rows);

  // Reads one row back as f32: an embedding look-up. out: [k]
  void CopyRow(int64_t row, float* out) const;

  // Outputs [begin, end) as a matrix, which shares the memory. REQUIRES: one band; `begin` is a
  // multiple of kBlockColumns, and so is `end`, or n().
  PackedMatrix Outputs(int64_t begin, int64_t end) const;

  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  int64_t bytes() const { return bytes_; }
  const std::byte* data() const { return data_.get(); }  // 64-byte aligned
  // If there are several bands, all their types are integers, so that they read the same input.
  std::span<const Band> bands() const { return bands_; }
  // The type of the band that holds a row. REQUIRES: n() > row.
  WeightType type(int64_t row = 0) const { return BandOf(row).type; }

 private:
  friend class WeightMemory;

  const Band& BandOf(int64_t row) const;
  std::byte* BlockOf(const Band& band, int64_t row) const;

  int64_t n_ = 0;
  int64_t k_ = 0;
  int64_t bytes_ = 0;
  std::vector<Band> bands_;
  std::shared_ptr<std::byte> data_;  // keeps its whole WeightMemory alive
};

// Memory that many matrices share, so that small matrices are on huge pages too. Reading them from
// end to end then costs no address translation. The memory is from the operating system and all
// zeros. The system gives each page when it is first written, so the thread that packs decides
// where the page is.
class WeightMemory {
 public:
  // Errors: LimitError when the system does not give the memory.
  static absl::StatusOr<WeightMemory> Reserve(int64_t bytes);
  // Memory that is there already: of matrices that were packed before. It may be only for reading,
  // then its matrices are not packed again. REQUIRES: 64-byte aligned.
  static WeightMemory Of(std::shared_ptr<std::byte> data, int64_t bytes);

  // Makes the next [n, k] matrix. Errors: LimitError when less than its PackedBytes are left.
  // REQUIRES: the bands together have its blocks; if there are several, all are integers.
  absl::StatusOr<PackedMatrix> Allocate(std::span<const WeightBand> bands, int64_t n, int64_t k);
  absl::StatusOr<PackedMatrix> Allocate(WeightType type, int64_t n, int64_t k);

 private:
  std::shared_ptr<std::byte> data_;
  int64_t size_ = 0;
  int64_t used_ = 0;
};

}  // namespace ng

#endif  // NG_CORE_KERNELS_PACKED_MATRIX_H_
