#include "core/machine/cgroups.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "core/machine/cpus.h"
#include "ng/process_memory.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

namespace fs = std::filesystem;
using test::TempDir;

// A copy of the files that Linux has for a process.
class CgroupsTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) const {
    const fs::path file = dir_.path() + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  // The second line is what every machine has besides.
  void Mounts(const std::string& lines) const {
    Write("/proc/self/mountinfo", lines + "\n21 1 0:5 / /proc rw,nosuid - proc proc rw");
  }
  Cgroups Read() const { return Cgroups(dir_.path()); }

  const TempDir dir_;
};

constexpr char kVersion2[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw";

TEST_F(CgroupsTest, OfAMachineWithoutAnyLeaveEverything) {
  EXPECT_EQ(Read().CpuQuota(), std::nullopt);
  EXPECT_EQ(Read().MemoryRoom(), std::nullopt);
  Mounts(kVersion2);
  Write("/proc/self/cgroup", "0::/user.slice");
  Write("/sys/fs/cgroup/user.slice/cpu.max", "max 100000");
  Write("/sys/fs/cgroup/user.slice/memory.max", "max");
  Write("/sys/fs/cgroup/user.slice/memory.current", "1000");
  EXPECT_EQ(Read().CpuQuota(), std::nullopt);
  EXPECT_EQ(Read().MemoryRoom(), std::nullopt);
}

TEST_F(CgroupsTest, RoundAQuotaUp) {
  Mounts(kVersion2);
  Write("/proc/self/cgroup", "0::/docker/0123");
  const struct {
    const char* text;
    std::optional<int> cpus;
  } kCases[] = {{"100000 100000", 1}, {"150000 100000", 2}, {"1000 100000", 1},
                {"400000 50000", 8},  {"max 100000", {}},   {"100000", {}},
                {"0 100000", {}},     {"100000 0", {}},     {"9223372036854775807 1", 1 << 20}};
  for (const auto& c : kCases) {
    Write("/sys/fs/cgroup/docker/0123/cpu.max", c.text);
    EXPECT_EQ(Read().CpuQuota(), c.cpus) << c.text;
  }
}

TEST_F(CgroupsTest, AreHeldByTheTightestGroupAbove) {
  Mounts(kVersion2);
  Write("/proc/self/cgroup", "0::/a/b/c");
  Write("/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000");
  Write("/sys/fs/cgroup/a/cpu.max", "200000 100000");
  Write("/sys/fs/cgroup/a/b/c/memory.max", "max");
  Write("/sys/fs/cgroup/a/b/c/memory.current", "10");
  Write("/sys/fs/cgroup/a/b/memory.max", "5000");
  Write("/sys/fs/cgroup/a/b/memory.current", "4000");
  Write("/sys/fs/cgroup/a/b/memory.stat", "anon 3000\ninactive_file 500\nactive_file 500");
  Write("/sys/fs/cgroup/memory.max", "9000");
  Write("/sys/fs/cgroup/memory.current", "1000");
  EXPECT_EQ(Read().CpuQuota(), 2);
  EXPECT_EQ(Read().MemoryRoom(), 1500);
}

TEST_F(CgroupsTest, OfVersion1HaveAFolderForEachController) {
  Mounts(
      "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
      "32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
  Write("/proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/c/d\n1:name=systemd:/x\n0::/x");
  Write("/sys/fs/cgroup/cpu,cpuacct/c/d/cpu.cfs_quota_us", "-1");
  Write("/sys/fs/cgroup/cpu,cpuacct/c/d/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Read().CpuQuota(), std::nullopt);
  Write("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "250000");
  Write("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Read().CpuQuota(), 3);
  Write("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "300");
  Write("/sys/fs/cgroup/memory/m/memory.usage_in_bytes", "400");
  EXPECT_EQ(Read().MemoryRoom(), 0);
}

// A container sees its own group at the mount: by its name on the machine, as "/", or not at all.
TEST_F(CgroupsTest, OfAContainerAreAtItsMount) {
  Write("/sys/fs/cgroup/cpu.max", "100000 100000");
  for (const char* const root : {"/docker/0123", "/", "/../..", "/docker"}) {
    Mounts(std::string("30 23 0:26 ") + root + " /sys/fs/cgroup ro - cgroup2 cgroup rw");
    for (const char* const group : {"/docker/0123", "/", "/../4567", "/elsewhere"}) {
      Write("/proc/self/cgroup", std::string("0::") + group);
      EXPECT_EQ(Read().CpuQuota(), 1) << root << " " << group;
    }
  }
}

TEST_F(CgroupsTest, MayBeMountedAnywhere) {
  Mounts("30 23 0:26 / /my\\040groups rw - cgroup2 none rw");
  Write("/proc/self/cgroup", "0::/a:b");
  Write("/my groups/a:b/cpu.max", "100000 100000");
  EXPECT_EQ(Read().CpuQuota(), 1);
}

TEST_F(CgroupsTest, SurviveFilesOfAnotherShape) {
  for (const char* const text :
       {"", "x", "0", "0:", "::", " - ", "1 2 3 - cgroup2", "0::\n\n0:cpu:"}) {
    Mounts(text);
    Write("/proc/self/cgroup", text);
    EXPECT_EQ(Read().CpuQuota(), std::nullopt) << text;
  }
}

// A group of the system's own, removed at the end.
class RealGroup {
 public:
  // Empty where groups cannot be made here.
  explicit RealGroup(const std::string& quota_of_two) {
    const std::string name = "/ng-test-" + std::to_string(getpid());
    for (const char* const parent :
         {"/sys/fs/cgroup", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu"}) {
      const std::string folder = parent + name;
      std::error_code error;
      if (!fs::create_directory(folder, error)) continue;
      if (!fs::exists(folder + "/cgroup.procs")) {  // a folder like any other
        fs::remove(folder);
        continue;
      }
      if ((std::ofstream(folder + "/cpu.max") << quota_of_two << " 100000\n").flush() ||
          (std::ofstream(folder + "/cpu.cfs_quota_us") << quota_of_two << "\n").flush()) {
        folder_ = folder;
        return;
      }
      rmdir(folder.c_str());
    }
  }
  ~RealGroup() {
    if (!folder_.empty()) rmdir(folder_.c_str());
  }
  bool exists() const { return !folder_.empty(); }
  // [a process of its own]
  bool Join() const {
    return bool((std::ofstream(folder_ + "/cgroup.procs") << getpid() << "\n").flush());
  }

 private:
  std::string folder_;
};

TEST(CpuQuotaTest, OfTheRealGroupIsTheNumberOfThreads) {
  const RealGroup group("100000");
  if (!group.exists()) GTEST_SKIP() << "groups cannot be made here";
  const pid_t child = fork();
  if (child == 0) _exit(group.Join() ? DefaultThreads() : 99);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

}  // namespace
}  // namespace ng
