// The engine's threads: ng::Executor over a team (team.h) whose helpers are oneTBB's (helpers.h).
//
// Made by the engine when it opens and lent to kernels, backends and stores. Every thread runs a
// task under the default floating point environment, so that results do not depend on the thread;
// the calling thread gets its own environment back.
#ifndef NG_CORE_MACHINE_EXECUTOR_H_
#define NG_CORE_MACHINE_EXECUTOR_H_

#include <functional>
#include <memory>
#include <string_view>

#include "ng/executor.h"

namespace ng {

// An executor of `threads` workers, the calling thread among them. No more take part at a time than
// there are CPUs that this process may run on: they would only take turns. With one, tasks run
// inline. An exception thrown by a task becomes a RuntimeError "exception in a worker: ...",
// bad_alloc a LimitError.
// A region costs a fraction of a microsecond when the one before it was short ago; threads without
// work go to sleep after a fraction of a millisecond. Threads begin when they are first wanted, and
// again after a fork, in both processes; where the system gives fewer, `warning` is told once and
// the work is done by those there are, with the same results. REQUIRES: threads >= 1.
using Tell = std::function<void(std::string_view)>;  // may be empty
std::unique_ptr<Executor> MakeExecutor(int threads, Tell warning = {});
// The same as if there were `n_cpus`: for tests of more threads than the machine has.
std::unique_ptr<Executor> MakeExecutor(int threads, int n_cpus, Tell warning = {});

// The same, and each of its threads but the calling one keeps to a core of its own, and to a second
// hardware thread where there are more threads than cores. The first core is left to the calling
// thread, which each region brings back there; it may leave again. `warning` is told of each that
// cannot be kept; it works all the same.
std::unique_ptr<Executor> MakePinnedExecutor(int threads, Tell warning = {});

}  // namespace ng

#endif  // NG_CORE_MACHINE_EXECUTOR_H_
