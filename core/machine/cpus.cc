#include "core/machine/cpus.h"

#include <sched.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "core/machine/cgroups.h"

namespace ng {
namespace {

struct CoreCpus {
  std::vector<int> cpus;
  int n_cores = 0;
};

// Where the system does not say which CPUs are of one core, each is one.
CoreCpus CpusOfCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    for (int cpu = 0; cpu < AllowedCpus(); ++cpu) CPU_SET(cpu, &allowed);
  }
  std::map<std::string, int> seen;  // hardware threads of a core; it is named by the list of all
  std::vector<std::pair<int, int>> cpus;  // which thread of its core, the CPU
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::string siblings;
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                       "/topology/thread_siblings_list");
    if (!std::getline(file, siblings)) siblings = std::to_string(cpu);
    cpus.emplace_back(seen[siblings]++, cpu);
  }
  std::ranges::sort(cpus);
  CoreCpus result;
  result.n_cores = std::max<int>(1, static_cast<int>(seen.size()));
  for (const auto& [thread, cpu] : cpus) result.cpus.push_back(cpu);
  return result;
}

}  // namespace

int AllowedCpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return CPU_COUNT(&allowed);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::vector<int> CpusByCore() { return CpusOfCores().cpus; }

int PhysicalCores() { return CpusOfCores().n_cores; }

int DefaultThreads() { return std::min(PhysicalCores(), Cgroups().CpuQuota().value_or(INT_MAX)); }

bool KeepThreadOn(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  return sched_setaffinity(0, sizeof(one), &one) == 0;
}

}  // namespace ng
