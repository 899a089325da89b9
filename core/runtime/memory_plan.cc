#include "core/runtime/memory_plan.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/formats/checked.h"

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

int64_t MemoryPlan::needed_bytes() const {
  return SaturatingAdd(SaturatingAdd(weight_bytes, cache_bytes),
                       std::max(load_scratch_bytes, activation_bytes));
}

int64_t AvailableMemory() { return std::min(KernelEstimate(), CgroupRoom()); }

int64_t ActivationBytes(const ModelSpec& spec, int64_t n_rows, int64_t n_logit_rows) {
  const int64_t widest = std::max({spec.width, spec.q_width(), spec.ffn_width});
  const int64_t per_row =  // the last: what a matmul reads
      spec.width + spec.q_width() + spec.qkv_width() + spec.ffn_width + widest;
  const int64_t floats = SaturatingAdd(SaturatingMul(n_rows, per_row),
                                       SaturatingMul(n_logit_rows, spec.shape.vocab_size));
  return SaturatingMul(floats, sizeof(float));
}

absl::Status CheckMemory(const MemoryPlan& plan) {
  if (plan.needed_bytes() <= plan.available_bytes) return absl::OkStatus();
  return LimitError(absl::StrCat(
      "the run needs ", plan.needed_bytes(), " bytes (weights ", plan.weight_bytes, ", cache ",
      plan.cache_bytes, ", activations ", plan.activation_bytes, "), ", plan.available_bytes,
      " are available; lower cache.max_tokens or cache.max_sequences, or choose a smaller "
      "cache.codec"));
}

}  // namespace ng
