#include "core/kernels/packed_matrix.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <string>

#include "ng/half.h"

namespace ng {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

int64_t ElementBytes(WeightType type) { return type == WeightType::kF32 ? 4 : 2; }

int64_t PaddedK(WeightType type, int64_t k) { return type == WeightType::kBf16 ? k + k % 2 : k; }

// One type's element, and where it lies in its block.
struct F32Layout {
  using Element = float;
  static Element Round(float value) { return value; }
  static float Widen(Element element) { return element; }
  static int64_t Offset(int64_t k, int64_t column) { return k * kBlockColumns + column; }
};

struct F16Layout {
  using Element = uint16_t;
  static Element Round(float value) { return F32ToF16(value); }
  static float Widen(Element element) { return F16ToF32(element); }
  static int64_t Offset(int64_t k, int64_t column) { return k * kBlockColumns + column; }
};

struct Bf16Layout {
  using Element = uint16_t;
  static Element Round(float value) { return F32ToBf16(value); }
  static float Widen(Element element) { return Bf16ToF32(element); }
  static int64_t Offset(int64_t k, int64_t column) {
    return k / 2 * (2 * kBlockColumns) + 2 * column + k % 2;
  }
};

// Columns [column, column + n_rows) of one block. In squares of 16 x 16: each source line is read
// once and each target line filled while it is near.
template <class Layout>
void PackBlock(const float* rows, int64_t column, int64_t n_rows, int64_t k, std::byte* block) {
  auto* out = reinterpret_cast<typename Layout::Element*>(block);
  for (int64_t begin = 0; begin < k; begin += 16) {
    const int64_t end = std::min(k, begin + 16);
    for (int64_t r = 0; r < n_rows; ++r) {
      for (int64_t i = begin; i < end; ++i) {
        out[Layout::Offset(i, column + r)] = Layout::Round(rows[r * k + i]);
      }
    }
  }
}

template <class Layout>
void UnpackColumn(const std::byte* block, int64_t column, int64_t k, float* out) {
  const auto* in = reinterpret_cast<const typename Layout::Element*>(block);
  for (int64_t i = 0; i < k; ++i) out[i] = Layout::Widen(in[Layout::Offset(i, column)]);
}

}  // namespace

void PackedMatrix::Unmap::operator()(std::byte* p) const { munmap(p, bytes); }

int64_t PackedMatrix::PackedBytes(WeightType type, int64_t n, int64_t k) {
  assert(n >= 1 && k >= 1);
  constexpr int64_t kTooMany = std::numeric_limits<int64_t>::max();
  if (n > kTooMany - kBlockColumns || k > kTooMany - 1) return kTooMany;
  const int64_t columns = (n + kBlockColumns - 1) / kBlockColumns * kBlockColumns;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(columns, PaddedK(type, k), &bytes) ||
      __builtin_mul_overflow(bytes, ElementBytes(type), &bytes)) {
    return kTooMany;
  }
  return bytes;
}

absl::StatusOr<PackedMatrix> PackedMatrix::Allocate(WeightType type, int64_t n, int64_t k) {
  PackedMatrix matrix;
  matrix.type_ = type;
  matrix.n_ = n;
  matrix.k_ = k;
  const auto bytes = static_cast<size_t>(PackedBytes(type, n, k));
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  if (memory == MAP_FAILED) {
    return LimitError("a weight matrix of " + std::to_string(n) + " x " + std::to_string(k) +
                      " needs " + std::to_string(bytes) + " bytes, more than can be had");
  }
  // Only a hint: it saves address translation while the matrix streams through a kernel.
  if (static_cast<int64_t>(bytes) >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);
  matrix.data_ = {static_cast<std::byte*>(memory), Unmap{bytes}};
  return matrix;
}

void PackedMatrix::PackRows(int64_t row, int64_t n_rows, const float* rows) {
  assert(row >= 0 && n_rows >= 0 && n_rows <= n_ - row);
  const int64_t block_bytes = kBlockColumns * PaddedK(type_, k_) * ElementBytes(type_);
  const auto pack = type_ == WeightType::kF32   ? PackBlock<F32Layout>
                    : type_ == WeightType::kF16 ? PackBlock<F16Layout>
                                                : PackBlock<Bf16Layout>;
  while (n_rows > 0) {
    const int64_t column = row % kBlockColumns;
    const int64_t count = std::min(n_rows, kBlockColumns - column);
    pack(rows, column, count, k_, data_.get() + row / kBlockColumns * block_bytes);
    row += count;
    n_rows -= count;
    rows += count * k_;
  }
}

void PackedMatrix::CopyRow(int64_t row, float* out) const {
  assert(row >= 0 && row < n_);
  const int64_t block_bytes = kBlockColumns * PaddedK(type_, k_) * ElementBytes(type_);
  const auto unpack = type_ == WeightType::kF32   ? UnpackColumn<F32Layout>
                      : type_ == WeightType::kF16 ? UnpackColumn<F16Layout>
                                                  : UnpackColumn<Bf16Layout>;
  unpack(data_.get() + row / kBlockColumns * block_bytes, row % kBlockColumns, k_, out);
}

namespace {

// How many rows a thread takes as one item. Groups smaller than all rows are made only where the
// blocks alone would leave a worker idle for long: each group reads the weights again.
int64_t RowsPerItem(int64_t n_rows, int64_t n_blocks, int threads) {
  constexpr int64_t kItemsPerThread = 8;  // an uneven split costs at most an eighth
  constexpr int64_t kFewestRows = 24;     // a multiple of the kernels' tile heights
  const int64_t groups = (kItemsPerThread * threads + n_blocks - 1) / n_blocks;
  if (groups == 1 || n_blocks % threads == 0) return n_rows;
  const int64_t rows = (n_rows + groups - 1) / groups;
  return std::min(n_rows, (rows + kFewestRows - 1) / kFewestRows * kFewestRows);
}

// Items [begin, end) of `all`, counted block by block through the first group of rows, then through
// the next.
void MatmulItems(void (*matmul)(const MatmulArgs&), const MatmulArgs& all, int64_t rows_per_item,
                 int64_t begin, int64_t end) {
  const int64_t n_blocks = all.block_end;
  while (begin < end) {
    const int64_t row = begin / n_blocks * rows_per_item;
    const int64_t block = begin % n_blocks;
    const int64_t n = std::min(end - begin, n_blocks - block);
    const int64_t groups = n == n_blocks ? (end - begin) / n_blocks : 1;  // whole ones in one call
    MatmulArgs part = all;
    part.x += row * all.x_stride;
    part.out += row * all.out_stride;
    part.n_rows = std::min(groups * rows_per_item, all.n_rows - row);
    part.block_begin = block;
    part.block_end = block + n;
    matmul(part);
    begin += groups * n;
  }
}

}  // namespace

absl::Status Matmul(const KernelTable& kernels, Executor& executor, const PackedMatrix& w,
                    const float* bias, const TensorView<const float, 2>& x,
                    const TensorView<float, 2>& out) {
  assert(x.extent[1] == w.k() && out.extent[0] == x.extent[0] && out.extent[1] == w.n());
  MatmulArgs all;
  all.x = x.data;
  all.x_stride = x.stride[0];
  all.n_rows = x.extent[0];
  all.k = w.k();
  all.weights = w.data();
  all.bias = bias;
  all.out = out.data;
  all.out_stride = out.stride[0];
  all.n_columns = w.n();
  all.block_end = (w.n() + kBlockColumns - 1) / kBlockColumns;
  if (all.n_rows == 0) return absl::OkStatus();

  const auto matmul = kernels.matmul[static_cast<int>(w.type())];
  const int64_t rows_per_item = RowsPerItem(all.n_rows, all.block_end, executor.threads());
  const int64_t row_groups = (all.n_rows + rows_per_item - 1) / rows_per_item;
  return ParallelFor(executor, row_groups * all.block_end,
                     [&](int64_t begin, int64_t end, int /*worker*/) {
                       MatmulItems(matmul, all, rows_per_item, begin, end);
                     });
}

}  // namespace ng
