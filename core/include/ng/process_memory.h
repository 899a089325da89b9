// What this process holds of the machine's memory, and what it (and its cgroup) can still give.
#ifndef NG_PROCESS_MEMORY_H_
#define NG_PROCESS_MEMORY_H_

#include <cstdint>

#pragma GCC visibility push(default)
namespace ng {

// Bytes that can still be had: the kernel's estimate, or what a cgroup's limit leaves.
int64_t AvailableMemory();

// Bytes that lie in memory now, code included; 0 where the system does not say.
int64_t ResidentMemory();

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_PROCESS_MEMORY_H_
