// Matmul: prepared rows times a packed matrix, spread over the threads.
#include <algorithm>
#include <cassert>

#include "core/kernels/packed_matrix.h"

namespace ng {
namespace {

// Up to this many rows the weights are the work: they stream once through one kernel call. With
// more, the epilogue follows each unit of columns, whose outputs are still near then.
constexpr int64_t kFewRows = 12;

// One matmul cut into items: units of columns, and groups of rows where the columns alone are too
// few to occupy the threads evenly. Items count unit by unit through the first group of rows, then
// through the next.
class Work {
 public:
  Work(const MatmulArgs& all, int threads) : all_(all) {
    n_blocks_ = (all.n_columns + kBlockColumns - 1) / kBlockColumns;
    unit_blocks_ = all.n_rows <= kFewRows ? 2 : 4;
    n_units_ = (n_blocks_ + unit_blocks_ - 1) / unit_blocks_;
    group_rows_ = RowsPerGroup(threads);
    n_groups_ = (all.n_rows + group_rows_ - 1) / group_rows_;
  }

  int64_t n_items() const { return n_units_ * n_groups_; }

  void Run(void (*matmul)(const MatmulArgs&), MatmulEpilogue epilogue, int64_t begin,
           int64_t end) const {
    while (begin < end) {
      const int64_t row = begin / n_units_ * group_rows_;
      const int64_t unit = begin % n_units_;
      int64_t n = std::min(end - begin, n_units_ - unit);
      const int64_t groups = n == n_units_ ? (end - begin) / n_units_ : 1;  // whole ones together
      const int64_t n_rows = std::min(groups * group_rows_, all_.n_rows - row);
      begin += groups * n;
      const int64_t step = n_rows <= kFewRows ? n : 1;
      for (int64_t i = unit; i < unit + n; i += step) {
        RunUnits(matmul, epilogue, {row, n_rows}, i, std::min(i + step, unit + n));
      }
    }
  }

 private:
  struct Rows {
    int64_t begin;
    int64_t count;
  };

  // Groups smaller than all rows are made only where the units alone would leave a worker idle for
  // long: each group reads the weights again.
  int64_t RowsPerGroup(int threads) const {
    constexpr int64_t kItemsPerThread = 8;  // an uneven split costs at most an eighth
    constexpr int64_t kFewestRows = 24;     // a multiple of the kernels' tile heights
    const int64_t groups = (kItemsPerThread * threads + n_units_ - 1) / n_units_;
    if (groups == 1 || n_units_ % threads == 0) return all_.n_rows;
    const int64_t rows = (all_.n_rows + groups - 1) / groups;
    return std::min(all_.n_rows, (rows + kFewestRows - 1) / kFewestRows * kFewestRows);
  }

  void RunUnits(void (*matmul)(const MatmulArgs&), MatmulEpilogue epilogue, Rows rows,
                int64_t begin, int64_t end) const {
    MatmulArgs part = all_;
    part.x += rows.begin * all_.x_stride;
    part.out += rows.begin * all_.out_stride;
    part.n_rows = rows.count;
    part.block_begin = begin * unit_blocks_;
    part.block_end = std::min(end * unit_blocks_, n_blocks_);
    matmul(part);
    const int64_t column = part.block_begin * kBlockColumns;
    const int64_t column_end = std::min(part.block_end * kBlockColumns, all_.n_columns);
    epilogue(rows.begin, rows.count, column, column_end - column);
  }

  const MatmulArgs& all_;
  int64_t n_blocks_;
  int64_t unit_blocks_;
  int64_t n_units_;
  int64_t group_rows_;
  int64_t n_groups_;
};

}  // namespace

absl::Status Matmul(const KernelTable& kernels, Executor& executor, const PackedMatrix& w,
                    const float* bias, const MatmulInput& x, const TensorView<float, 2>& out,
                    MatmulEpilogue epilogue) {
  assert(x.k == w.k() && out.extent[0] == x.n_rows && out.extent[1] == w.n());
  if (x.n_rows == 0) return absl::OkStatus();
  MatmulArgs all;
  all.x = x.data;
  all.x_stride = x.row_bytes;
  all.n_rows = x.n_rows;
  all.k = w.k();
  all.weights = w.data();
  all.bias = bias;
  all.out = out.data;
  all.out_stride = out.stride[0];
  all.n_columns = w.n();
  const auto matmul = kernels.matmul[static_cast<int>(w.type())];
  const Work work(all, executor.threads());
  return ParallelFor(executor, work.n_items(), [&](int64_t begin, int64_t end, int /*worker*/) {
    work.Run(matmul, epilogue, begin, end);
  });
}

absl::Status Matmul(const KernelTable& kernels, Executor& executor, const PackedMatrix& w,
                    const float* bias, const MatmulInput& x, const TensorView<float, 2>& out) {
  return Matmul(kernels, executor, w, bias, x, out, [](int64_t, int64_t, int64_t, int64_t) {});
}

}  // namespace ng
