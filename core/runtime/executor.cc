#include "core/runtime/executor.h"

#include <sched.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "core/runtime/float_environment.h"
#include "ng/status.h"

namespace ng {
namespace {

// One call of Run. Exceptions stay inside the range that threw, so TBB cancels nothing and every
// other range finishes.
struct Region {
  Executor::Task task;
  void* context;
  int64_t n_items;
  int n_ranges;
  std::atomic<bool> failed{false};
  std::string what = {};  // written once, by whoever set `failed`

  // Ranges serve as worker numbers: each runs once, so the numbers are unique within the region.
  void RunRange(int range) {
    const DefaultFloatEnvironment environment;
    try {
      task(context, Begin(range), Begin(range + 1), range);
    } catch (const std::exception& error) {
      Fail(error.what());
    } catch (...) {
      Fail("an exception of unknown type");
    }
  }

  // Ranges differ by at most one item; written so that no product can overflow.
  int64_t Begin(int range) const {
    return n_items / n_ranges * range + std::min<int64_t>(range, n_items % n_ranges);
  }

  void Fail(const char* message) {
    if (!failed.exchange(true)) what = message;
  }

  absl::Status Result() const {
    if (!failed.load()) return absl::OkStatus();
    return RuntimeError("exception in a worker: " + what);
  }
};

class TbbExecutor : public Executor {
 public:
  explicit TbbExecutor(int threads) : threads_(threads), arena_(threads) {}

  int threads() const override { return threads_; }

  absl::Status Run(int64_t n_items, Task task, void* context) override {
    if (n_items <= 0) return absl::OkStatus();
    const int n_ranges = static_cast<int>(std::min<int64_t>(n_items, threads_));
    Region region{.task = task, .context = context, .n_items = n_items, .n_ranges = n_ranges};
    if (n_ranges == 1) {
      region.RunRange(0);
      return region.Result();
    }
    arena_.execute([&region] {
      tbb::parallel_for(
          0, region.n_ranges, [&region](int range) { region.RunRange(range); },
          tbb::static_partitioner());
    });
    return region.Result();
  }

 private:
  // TBB allows as many workers as there are cores, and says so on stderr where an arena asks for
  // more. Here the arena alone sets the limit: this one is the same for every executor.
  static constexpr size_t kMostThreads = 1024;

  const int threads_;
  const tbb::global_control control_{tbb::global_control::max_allowed_parallelism, kMostThreads};
  tbb::task_arena arena_;
};

}  // namespace

std::unique_ptr<Executor> MakeExecutor(int threads) {
  return std::make_unique<TbbExecutor>(threads);
}

int PhysicalCores() {
  const int hardware_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return hardware_threads;
  std::set<std::string> cores;  // each named by the list of its hardware threads
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                       "/topology/thread_siblings_list");
    std::string siblings;
    if (!std::getline(file, siblings)) return std::max(1, CPU_COUNT(&allowed));
    cores.insert(siblings);
  }
  return std::max(1, static_cast<int>(cores.size()));
}

}  // namespace ng
