#include "ng/process_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "core/machine/cgroups.h"

namespace ng {
namespace {

int64_t KernelEstimate() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kib = 0;
  std::string unit;
  while (file >> name >> kib) {
    std::getline(file, unit);
    if (name == "MemAvailable:") return kib * 1024;
  }
  return std::numeric_limits<int64_t>::max();
}

}  // namespace

int64_t AvailableMemory() {
  const int64_t estimate = KernelEstimate();
  return std::min(estimate, Cgroups().MemoryRoom().value_or(estimate));
}

int64_t ResidentMemory() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  if (!(file >> size >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace ng
