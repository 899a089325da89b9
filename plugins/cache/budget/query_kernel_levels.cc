// The kernels of each level. Compiled once for each level. Products of floats are exact in double,
// so there is one way to round, with fused additions or without.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ng/level.h"
#include "plugins/cache/budget/query_kernel.h"

NG_BEGIN_LEVEL
namespace ng {
namespace {

constexpr int64_t kColumns = 8;
// Rows of queries that are read again for all sums of a head.
constexpr int64_t kQueriesAtATime = 64;

using Doubles = double __attribute__((vector_size(8 * kColumns)));
using Floats = float __attribute__((vector_size(4 * kColumns)));

NG_INLINE Doubles LoadFloats(const float* x, int64_t n) {
  Floats floats = {};
  std::memcpy(&floats, x, static_cast<size_t>(n) * sizeof(float));
  return __builtin_convertvector(floats, Doubles);
}

// Rows of queries, [n, ...], `stride` apart.
struct Queries {
  const float* data;
  int64_t stride;
  int64_t n;
};

// sums[r][c] += x[row][first + r] * x[row][column + c] for each row in turn; without kTimes there
// is no first factor. Rows of sums are `width` apart, with n columns of kColumns.
template <int kRows, bool kTimes>
NG_INLINE void AddTile(const Queries& x, int64_t first, int64_t column, int64_t n, int64_t width,
                       double* sums) {
  Doubles added[kRows] = {};
  for (int r = 0; r < kRows; ++r) {
    std::memcpy(&added[r], sums + r * width, static_cast<size_t>(n) * sizeof(double));
  }
  for (int64_t row = 0; row < x.n; ++row) {
    const float* const query = x.data + row * x.stride;
    const Doubles columns = LoadFloats(query + column, n);
    for (int r = 0; r < kRows; ++r) {
      added[r] += kTimes ? columns * double{query[first + r]} : columns;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    std::memcpy(sums + r * width, &added[r], static_cast<size_t>(n) * sizeof(double));
  }
}

template <int kRows, bool kTimes>
NG_INLINE void AddTiles(const Queries& x, int64_t first, int64_t begin, int64_t end, double* sums) {
  const int64_t width = end - begin;
  int64_t column = begin;
  for (; column + kColumns <= end; column += kColumns) {  // so many that the compiler knows it
    AddTile<kRows, kTimes>(x, first, column, kColumns, width, sums + column - begin);
  }
  if (column == end) return;
  AddTile<kRows, kTimes>(x, first, column, end - column, width, sums + column - begin);
}

void Add(const float* x, int64_t stride, int64_t n_rows, int64_t head_dim, double* sums) {
  for (int64_t done = 0; done < n_rows; done += kQueriesAtATime) {
    const Queries rows = {x + done * stride, stride, std::min(kQueriesAtATime, n_rows - done)};
    AddTiles<1, false>(rows, 0, 0, head_dim, sums);
    double* products = sums + head_dim;
    for (int64_t row = 0; row < head_dim; row += kProductRows) {
      const int64_t width = head_dim - row;
      if (width >= kProductRows) {
        AddTiles<kProductRows, true>(rows, row, row, head_dim, products);
        products += kProductRows * width;
        continue;
      }
      for (int64_t r = 0; r < width; ++r, products += width) {
        AddTiles<1, true>(rows, row + r, row, head_dim, products);
      }
    }
  }
}

}  // namespace

template <>
const QueryKernel& QueryKernel::At<kLevel>() {
  static constexpr QueryKernel kKernel = {Add};
  return kKernel;
}

}  // namespace ng
NG_END_LEVEL
