#include "ng/process_memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace ng {
namespace {

// The number a one-line kernel file holds; nothing for "max" or a file that is not there.
std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  if (!(file >> text)) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

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

// File pages that a cgroup would drop before it runs out: they count as used, but are not.
int64_t Reclaimable(const std::string& dir) {
  std::ifstream file(dir + "/memory.stat");
  std::string name;
  int64_t bytes = 0;
  while (file >> name >> bytes) {
    if (name == "inactive_file") return bytes;
  }
  return 0;
}

// Limit less usage of this process's cgroup and of every one above it.
int64_t CgroupRoom() {
  int64_t room = std::numeric_limits<int64_t>::max();
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const size_t second = line.find(':', line.find(':') + 1);
    if (second == std::string::npos) continue;
    const bool v2 = line.rfind("0::", 0) == 0;
    if (!v2 && line.find(":memory:") == std::string::npos) continue;
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    std::string group = line.substr(second + 1);
    while (true) {
      const std::string dir = root + (group == "/" ? "" : group);
      const auto limit = ReadNumber(dir + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
      const auto used = ReadNumber(dir + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
      if (limit && used) {
        room = std::min(room, std::max<int64_t>(0, *limit - (*used - Reclaimable(dir))));
      }
      const size_t slash = group.rfind('/');
      if (group.empty() || group == "/" || slash == std::string::npos) break;
      group.resize(slash);
    }
  }
  return room;
}

}  // namespace

int64_t AvailableMemory() { return std::min(KernelEstimate(), CgroupRoom()); }

int64_t ResidentMemory() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  if (!(file >> size >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace ng
