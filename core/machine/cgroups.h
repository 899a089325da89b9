// What the control groups of this process leave it: memory, and CPU time.
//
// Both versions of cgroups, also side by side, wherever they are mounted and however much of the
// tree a container sees. A limit of a group above holds for the groups below it, so each is asked.
// (Linux: admin-guide/cgroup-v2, admin-guide/cgroup-v1, proc_pid_mountinfo(5), cgroups(7).)
#ifndef NG_CORE_MACHINE_CGROUPS_H_
#define NG_CORE_MACHINE_CGROUPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ng {

class Cgroups {
 public:
  // Finds the groups. `root` is put before every path that is read: a copy of the files, for tests.
  explicit Cgroups(std::string root = "");

  // Bytes that the tightest of them still gives; nothing where none has a limit. Pages of files
  // that would be dropped first do not count as used.
  std::optional<int64_t> MemoryRoom() const;

  // CPUs that the tightest quota gives at a time, rounded up, at least 1; nothing without a quota.
  std::optional<int> CpuQuota() const;

 private:
  enum class Version { kOne, kTwo };
  // A group's folder, for one controller of version 1, or for all of version 2.
  struct Group {
    std::string folder;
    Version version;
    std::vector<std::string> controllers;  // of version 1
    bool Controls(std::string_view controller) const;
  };

  std::vector<Group> groups_;
};

}  // namespace ng

#endif  // NG_CORE_MACHINE_CGROUPS_H_
