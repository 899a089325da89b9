// The CPUs that this process may use.
#ifndef NG_CORE_MACHINE_CPUS_H_
#define NG_CORE_MACHINE_CPUS_H_

#include <vector>

namespace ng {

// CPUs that this process may run on; hardware threads where the system does not say; at least 1.
int AllowedCpus();

// CPUs that this process may run on: of each core the first hardware thread, then of each the
// second.
std::vector<int> CpusByCore();

// Distinct cores among the CPUs that this process may run on (two hardware threads of one core
// count once); at least 1.
int PhysicalCores();

// How many threads compute where nobody says how many: one for each physical core, and no more than
// the CPU quota of the process's cgroups gives at a time, rounded up.
int DefaultThreads();

// Lets the calling thread run on this CPU alone. False, with errno, where the system does not.
bool KeepThreadOn(int cpu);

}  // namespace ng

#endif  // NG_CORE_MACHINE_CPUS_H_
