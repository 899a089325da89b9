// An executor to check parts with: every region really runs on as many threads as it has workers,
// whatever the machine has, in ranges of uneven length that begin in another order each time.
//
// It notices a region that is begun inside another one. Slow: each region starts its own threads.
// With one worker, tasks run on the calling thread and nothing is allocated.
#ifndef NG_CONFORM_EXECUTOR_H_
#define NG_CONFORM_EXECUTOR_H_

#include <atomic>
#include <cstdint>

#include "ng/executor.h"

namespace ng::conform {

class UnevenExecutor final : public Executor {
 public:
  // REQUIRES: threads >= 1.
  explicit UnevenExecutor(int threads) : threads_(threads) {}

  int threads() const override { return threads_; }
  absl::Status Run(int64_t n_items, Task task, void* context) override;

  // Whether a task has ever begun a region.
  bool nested() const { return nested_; }

 private:
  const int threads_;
  std::atomic<bool> busy_ = false;
  std::atomic<bool> nested_ = false;
  uint64_t n_regions_ = 0;
};

}  // namespace ng::conform

#endif  // NG_CONFORM_EXECUTOR_H_
