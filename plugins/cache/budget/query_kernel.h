// Adds up queries and their products, on an instruction set level.
#ifndef NG_PLUGINS_CACHE_BUDGET_QUERY_KERNEL_H_
#define NG_PLUGINS_CACHE_BUDGET_QUERY_KERNEL_H_

#include <algorithm>
#include <cstdint>

#include "ng/isa.h"

namespace ng {

// Rows of a head's products that are added to at a time. Each of them begins at the column of the
// first, so that of a symmetric matrix little more than half is there.
inline constexpr int64_t kProductRows = 4;

// Sums of a head: of its numbers, then of their products.
inline int64_t QuerySumsOf(int64_t head_dim) {
  int64_t n = head_dim;
  for (int64_t row = 0; row < head_dim; row += kProductRows) {
    n += std::min(kProductRows, head_dim - row) * (head_dim - row);
  }
  return n;
}

struct QueryKernel {
  // Adds rows of one head, one after the other, so that sums have the same bits whatever rows come
  // at a time. x: [n_rows, head_dim], `stride` apart; sums: [QuerySumsOf(head_dim)]
  void (*add)(const float* x, int64_t stride, int64_t n_rows, int64_t head_dim, double* sums);

  template <IsaLevel>
  static const QueryKernel& At();  // one for each level
};

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_BUDGET_QUERY_KERNEL_H_
