#include "core/machine/cgroups.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/absl_view.h"

namespace ng {
namespace {

std::vector<std::string> Words(const std::string& text, char between) {
  return absl::StrSplit(text, between, absl::SkipEmpty());
}

// The words of a file's first line; none where it cannot be read.
std::vector<std::string> FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return Words(line, ' ');
}

// The number that a file begins with; nothing for "max", or for a file that is not there.
std::optional<int64_t> Number(const std::string& path) {
  const std::vector<std::string> words = FirstLine(path);
  int64_t value = 0;
  if (words.empty() || !absl::SimpleAtoi(words[0], &value)) return std::nullopt;
  return value;
}

// mountinfo writes a blank, a tab, a line feed and a backslash in octal digits.
std::string Unescaped(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t k) { return text[i + k] >= '0' && text[i + k] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && digit(1) && digit(2) && digit(3)) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                  (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

bool Has(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// A hierarchy of groups as /proc/self/mountinfo has it.
struct Mount {
  std::string root;   // the group that is seen at `point`
  std::string point;  // the folder
  bool is_version_2 = false;
  std::vector<std::string> controllers;  // among other words
};

std::vector<Mount> ReadMounts(const std::string& path) {
  std::vector<Mount> mounts;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t end = line.find(" - ");
    if (end == std::string::npos) continue;
    const std::vector<std::string> place = Words(line.substr(0, end), ' ');
    const std::vector<std::string> kind = Words(line.substr(end + 3), ' ');
    if (place.size() < 5 || kind.empty()) continue;
    if (kind[0] != "cgroup" && kind[0] != "cgroup2") continue;
    mounts.push_back(
        {Unescaped(place[3]), Unescaped(place[4]), kind[0] == "cgroup2", Words(kind.back(), ',')});
  }
  return mounts;
}

// Pages of files that are not in use: they count as used, but are dropped before a group runs out.
int64_t Reclaimable(const std::string& folder) {
  std::ifstream file(folder + "/memory.stat");
  std::string name;
  int64_t bytes = 0;
  while (file >> name >> bytes) {
    if (name == "inactive_file") return bytes;
  }
  return 0;
}

template <typename T>
void TakeLesser(T value, std::optional<T>* least) {
  *least = std::min(value, least->value_or(value));
}

}  // namespace

Cgroups::Cgroups(std::string root) {
  const std::vector<Mount> mounts = ReadMounts(root + "/proc/self/mountinfo");
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    // "4:cpu,cpuacct:/a/b" or, of version 2, "0::/a/b".
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> controllers = Words(parts[1], ',');
    const auto mount = std::ranges::find_if(mounts, [&](const Mount& m) {
      if (controllers.empty()) return m.is_version_2;
      return !m.is_version_2 && Has(m.controllers, controllers[0]);
    });
    if (mount == mounts.end()) continue;
    const Version version = mount->is_version_2 ? Version::kTwo : Version::kOne;
    // A container may see its own group as the root, or groups that are elsewhere in the tree.
    std::string below = parts[2];
    if (mount->root != "/" || below.starts_with("/..")) {
      below = (below + "/").starts_with(mount->root + "/") ? below.substr(mount->root.size()) : "";
    }
    while (below.ends_with('/')) below.pop_back();
    for (;; below.resize(below.rfind('/'))) {
      groups_.push_back({root + mount->point + below, version, controllers});
      if (below.empty()) break;
    }
  }
}

bool Cgroups::Group::Controls(std::string_view controller) const {
  return version == Version::kTwo || Has(controllers, controller);
}

std::optional<int64_t> Cgroups::MemoryRoom() const {
  std::optional<int64_t> room;
  for (const Group& group : groups_) {
    if (!group.Controls("memory")) continue;
    const bool v2 = group.version == Version::kTwo;
    const auto limit = Number(group.folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    const auto used = Number(group.folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
    if (!limit || !used) continue;
    TakeLesser(std::max<int64_t>(0, *limit - (*used - Reclaimable(group.folder))), &room);
  }
  return room;
}

std::optional<int> Cgroups::CpuQuota() const {
  std::optional<int> cpus;
  for (const Group& group : groups_) {
    if (!group.Controls("cpu")) continue;
    std::optional<int64_t> quota;  // microseconds of CPU time in each period
    std::optional<int64_t> period;
    if (group.version == Version::kTwo) {
      const std::vector<std::string> words = FirstLine(group.folder + "/cpu.max");
      int64_t value = 0;
      if (words.size() == 2 && absl::SimpleAtoi(words[0], &value)) quota = value;  // or "max"
      if (words.size() == 2 && absl::SimpleAtoi(words[1], &value)) period = value;
    } else {
      quota = Number(group.folder + "/cpu.cfs_quota_us");  // -1: none
      period = Number(group.folder + "/cpu.cfs_period_us");
    }
    if (!quota || !period || *quota <= 0 || *period <= 0) continue;
    constexpr int64_t kMost = 1 << 20;
    const int64_t whole = *quota / *period + (*quota % *period != 0 ? 1 : 0);
    TakeLesser(static_cast<int>(std::min(whole, kMost)), &cpus);
  }
  return cpus;
}

}  // namespace ng
