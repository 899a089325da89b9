// The engine's thread pool: ng::Executor over one oneTBB arena.
//
// Made by the engine when it opens and lent to kernels, backends and stores. Every thread runs a
// task under the default floating point environment, so that results do not depend on the thread;
// the calling thread gets its own environment back.
#ifndef NG_CORE_RUNTIME_EXECUTOR_H_
#define NG_CORE_RUNTIME_EXECUTOR_H_

#include <memory>

#include "ng/executor.h"

namespace ng {

// An executor of `threads` workers, the calling thread among them; more than there are cores is
// slow but correct. With one, tasks run inline. An exception thrown by a task becomes a
// RuntimeError "exception in a worker: ...". REQUIRES: threads >= 1.
std::unique_ptr<Executor> MakeExecutor(int threads);

// Distinct cores among the CPUs that this process may run on (two hardware threads of one core
// count once); hardware threads where the system does not say; at least 1.
int PhysicalCores();

}  // namespace ng

#endif  // NG_CORE_RUNTIME_EXECUTOR_H_
