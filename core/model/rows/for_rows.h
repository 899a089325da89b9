// Work row by row: on the calling thread when there are few rows, else spread over the executor.
#ifndef NG_CORE_MODEL_ROWS_FOR_ROWS_H_
#define NG_CORE_MODEL_ROWS_FOR_ROWS_H_

#include <cstdint>

#include "ng/executor.h"
#include "ng/status.h"

namespace ng {

// Below this many rows a parallel region costs more than the row-wise work it would spread.
inline constexpr int64_t kRowsWorthARegion = 8;

// body(row, worker) for each row of [0, n_rows).
template <typename Body>
absl::Status ForRows(Executor& executor, int64_t n_rows, Body&& body) {
  if (n_rows < kRowsWorthARegion) {
    for (int64_t row = 0; row < n_rows; ++row) body(row, 0);
    return absl::OkStatus();
  }
  return ParallelFor(executor, n_rows, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t row = begin; row < end; ++row) body(row, worker);
  });
}

}  // namespace ng

#endif  // NG_CORE_MODEL_ROWS_FOR_ROWS_H_
