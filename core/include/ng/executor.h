// The engine's threads, lent to plugins.
//
// Implemented by the engine, called by kernels, backends and stores. A plugin starts
// no thread, arena or pool of its own. One region runs at a time: regions do not nest.
#ifndef NG_EXECUTOR_H_
#define NG_EXECUTOR_H_

#include <cstdint>
#include <type_traits>

#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

class Executor {
 public:
  // Does items [begin, end); `worker` is in [0, threads()) and unique among the calls that run at
  // the same time, so it can index per-worker scratch. [worker]
  using Task = void (*)(void* context, int64_t begin, int64_t end, int worker);

  virtual ~Executor() = default;

  // [any thread] How many workers a region may use; constant for the executor's life.
  virtual int threads() const = 0;

  // [step] Runs `task` over [0, n_items), split into at most threads() contiguous ranges in no
  // promised order, and waits for all of them. The first exception that a task throws becomes the
  // returned status; the other ranges still finish. Allocates nothing.
  // Regions do not nest: called from inside a task it runs nothing and returns a RuntimeError, and
  // the outer region returns one as well.
  virtual absl::Status Run(int64_t n_items, Task task, void* context) = 0;
};

// Run() with a callable `body(begin, end, worker)`, which is borrowed for the call.
template <typename Body>
absl::Status ParallelFor(Executor& executor, int64_t n_items, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  return executor.Run(
      n_items,
      [](void* context, int64_t begin, int64_t end, int worker) {
        (*static_cast<Plain*>(context))(begin, end, worker);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_EXECUTOR_H_
