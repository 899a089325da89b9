#include "core/machine/executor.h"

#include <pthread.h>
#include <sched.h>
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/machine/float_environment.h"
#include "ng/status.h"

namespace ng {
namespace {

using Clock = std::chrono::steady_clock;

// CPUs that this process may run on; hardware threads where the system does not say.
int AllowedCpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return CPU_COUNT(&allowed);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// CPUs that this process may run on: of each core the first hardware thread, then of each the
// second.
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

cpu_set_t OneCpu(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  return one;
}

// A wait for what should come within microseconds: on the core at first, since waking up takes far
// longer, then giving the core to whoever wants it.
class Wait {
 public:
  void Restart() {
    begun_ = Clock::now();
    elapsed_ = {};
  }
  Clock::duration elapsed() const { return elapsed_; }

  void Once() {
    constexpr Clock::duration kPatience = std::chrono::microseconds(20);
    constexpr int kPausesPerLook = 16;  // reading the clock takes longer than a pause
    if (elapsed_ >= kPatience) {
      std::this_thread::yield();
    } else if (++n_pauses_ % kPausesPerLook != 0) {
      _mm_pause();
      return;
    }
    elapsed_ = Clock::now() - begun_;
  }

 private:
  Clock::time_point begun_ = Clock::now();
  Clock::duration elapsed_{0};
  unsigned n_pauses_ = 0;
};

// One call of Run.
struct Region {
  Executor::Task task = nullptr;
  void* context = nullptr;
  int64_t n_items = 0;
  int n_ranges = 0;

  // Ranges differ by at most one item; written so that no product can overflow.
  int64_t Begin(int range) const {
    return n_items / n_ranges * range + std::min<int64_t>(range, n_items % n_ranges);
  }
};

// Where a caller and its helpers meet. Every worker has a range of its own, which it begins with:
// so it reads the same weights in every step, which are near it where its own packing touched them
// first. Regions are not handed to threads, though: who has done its own claims what others have
// not begun, the caller too, so nobody ever waits for a thread that the system does not run.
// Helpers stay awake for a while after a region, because the next one is a few microseconds away
// while a model runs, then sleep until a region finds too few awake. One that misses its call
// sleeps through a region: this takes a region longer, and nothing else.
class Team {
 public:
  // Of at most so many ranges.
  explicit Team(int n_ranges) : claims_(static_cast<size_t>(n_ranges)) {}

  // [caller] Runs the region with whoever helps. Exceptions stay inside the range that threw: every
  // other range finishes.
  absl::Status Run(const Region& region) {
    region_ = region;  // nobody looks at it now: all ranges of the last one are finished
    const Call call = {++n_regions_, region.n_ranges};
    call_.store(call.Word(), std::memory_order_release);
    RunRange(0, 0);
    int n_mine = 1;
    // From the end, so that a helper that is just coming has the longest time to get there.
    for (int range = region.n_ranges - 1; range > 0; --range) {
      if (!Claim(range, call)) continue;
      RunRange(range, 0);
      ++n_mine;
    }
    if (n_mine < region.n_ranges) {
      n_helped_ += static_cast<uint32_t>(region.n_ranges - n_mine);
      Wait wait;
      while (finished_.load(std::memory_order_acquire) != n_helped_) wait.Once();
    }
    return Result();
  }

  // Whether this thread is inside one of the team's tasks.
  bool IsInside() const { return inside_ == this; }
  // [task] The region fails with this exception, unless it has failed before.
  void Fail(std::exception_ptr error) {
    if (!failed_.exchange(true, std::memory_order_relaxed)) error_ = std::move(error);
  }

  // [caller] How many helpers `n_wanted` lack, once those asleep have been called.
  int Rouse(int n_wanted) {
    if (n_helpers_ - n_asleep_.load(std::memory_order_relaxed) >= n_wanted) return 0;
    WakeAll();
    return std::max(0, n_wanted - n_helpers_);
  }

  // [caller] One more helper is going to Help.
  void Expect() { ++n_helpers_; }

  // [caller] All helpers leave; one that begins later leaves at once. REQUIRES: no Run from now on.
  void Dismiss() {
    call_.store(kStop);
    WakeAll();
  }

  // [helper] Helps as `worker` until dismissed.
  void Help(int worker) {
    Wait wait;
    for (uint64_t last_seen = 0;;) {
      const uint64_t seen = call_.load(std::memory_order_acquire);
      if (seen == kStop) break;
      if (seen != last_seen) {
        last_seen = seen;
        HelpWith(Call::Of(seen), worker);
        wait.Restart();
      } else if (wait.elapsed() < kStay) {
        wait.Once();
      } else {
        Sleep(seen);
        wait.Restart();
      }
    }
  }

 private:
  static constexpr Clock::duration kStay = std::chrono::microseconds(200);

  // The word that a region is called out with. The number makes helpers see that there is another.
  struct Call {
    uint64_t region = 0;  // its number, from 1
    int n_ranges = 0;

    uint64_t Word() const { return region << kRangeBits | static_cast<uint64_t>(n_ranges); }
    static Call Of(uint64_t word) {
      return {word >> kRangeBits, static_cast<int>(word & ((uint64_t{1} << kRangeBits) - 1))};
    }
    static constexpr int kRangeBits = 16;
  };
  static constexpr uint64_t kStop = ~uint64_t{0};

  // The worker's own range, then those that nobody has begun. All are claimed after one look at
  // each.
  void HelpWith(const Call& call, int worker) {
    for (int i = 0; i < call.n_ranges; ++i) {
      const int range = (worker + i) % call.n_ranges;
      if (range == 0 || !Claim(range, call)) continue;
      RunRange(range, worker);
      finished_.fetch_add(1, std::memory_order_release);
    }
  }

  // Only after a claim may a helper look at the region: from then on the caller waits for it. Who
  // comes late finds the number of this region or a later one.
  bool Claim(int range, const Call& call) {
    std::atomic<uint64_t>& last = claims_[static_cast<size_t>(range)].region;
    uint64_t region = last.load(std::memory_order_relaxed);
    return region < call.region &&
           last.compare_exchange_strong(region, call.region, std::memory_order_relaxed);
  }

  void RunRange(int range, int worker) {
    const DefaultFloatEnvironment environment;
    inside_ = this;
    try {
      region_.task(region_.context, region_.Begin(range), region_.Begin(range + 1), worker);
    } catch (...) {
      Fail(std::current_exception());
    }
    inside_ = nullptr;
  }

  absl::Status Result() {
    if (!failed_.load(std::memory_order_relaxed)) return absl::OkStatus();
    failed_.store(false, std::memory_order_relaxed);
    try {
      std::rethrow_exception(std::exchange(error_, nullptr));
    } catch (const std::bad_alloc&) {
      return LimitError("out of memory");
    } catch (const std::exception& error) {
      return RuntimeError(std::string("exception in a worker: ") + error.what());
    } catch (...) {
      return RuntimeError("exception in a worker: an exception of unknown type");
    }
  }

  void WakeAll() {
    n_asleep_.store(0, std::memory_order_relaxed);  // from now on they are on their way
    n_calls_.fetch_add(1);
    n_calls_.notify_all();
  }

  // Until the next call, unless there is something new since `seen`. The order of the loads sees to
  // it that no helper sleeps through Dismiss.
  void Sleep(uint64_t seen) {
    const int32_t n_calls = n_calls_.load();
    if (call_.load() != seen) return;
    n_asleep_.fetch_add(1, std::memory_order_relaxed);
    n_calls_.wait(n_calls);
  }

  static inline thread_local const Team* inside_ = nullptr;

  static constexpr size_t kCacheLine = 64;
  // What the caller writes and the helpers read: one cache line, so that it travels once.
  alignas(kCacheLine) std::atomic<uint64_t> call_{0};
  Region region_;
  uint64_t n_regions_ = 0;
  uint32_t n_helped_ = 0;  // what finished_ comes to
  int n_helpers_ = 0;      // the caller's alone
  // What the helpers write: how many ranges they have finished since the beginning, modulo 2^32.
  alignas(kCacheLine) std::atomic<uint32_t> finished_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // set by whoever set failed_
  // Of each range the last region in which it was claimed: a cache line each, so that workers who
  // claim their own do not wait for each other.
  struct alignas(kCacheLine) LastClaim {
    std::atomic<uint64_t> region{0};
  };
  std::vector<LastClaim> claims_;
  // What changes rarely.
  // At most so many helpers have not been called since they slept.
  alignas(kCacheLine) std::atomic<int> n_asleep_{0};
  std::atomic<int32_t> n_calls_{0};  // what the sleepers wait for
};

// The helpers are threads of its own, begun when first wanted. Where the system gives no more of
// them, those that there are do the work: every range is claimed by somebody, and no bit depends on
// by whom.
class TeamExecutor : public Executor {
 public:
  // cpus: the CPU that each worker keeps to, the caller's first; empty: they may move.
  TeamExecutor(int threads, int n_cpus, std::vector<int> cpus, Tell warning)
      : threads_(threads),
        most_helpers_(std::min(threads, n_cpus) - 1),
        cpus_(std::move(cpus)),
        warning_(std::move(warning)),
        team_(threads) {
    helpers_.reserve(static_cast<size_t>(most_helpers_));
  }
  ~TeamExecutor() override {
    team_.Dismiss();
    for (std::thread& helper : helpers_) helper.join();
  }
  TeamExecutor(const TeamExecutor&) = delete;
  TeamExecutor& operator=(const TeamExecutor&) = delete;

  int threads() const override { return threads_; }

  absl::Status Run(int64_t n_items, Task task, void* context) override {
    // The outer region fails too, for its task may not look at what it gets back.
    if (team_.IsInside()) {
      constexpr const char* kNested = "a parallel region inside another one: regions do not nest";
      team_.Fail(std::make_exception_ptr(std::logic_error(kNested)));
      return RuntimeError(kNested);
    }
    if (n_items <= 0) return absl::OkStatus();
    if (!cpus_.empty() && sched_getcpu() != cpus_[0]) BringCallerBack();
    const int n_ranges = static_cast<int>(std::min<int64_t>(n_items, threads_));
    const int n_wanted = std::min(most_helpers_, n_ranges - 1);
    for (int lacking = team_.Rouse(n_wanted); lacking > 0 && BeginHelper(); --lacking) {
    }
    return team_.Run({task, context, n_items, n_ranges});
  }

 private:
  // The calling thread is not the executor's, so it may go where it likes afterwards. But what it
  // reads is near the first core, and the others are taken.
  void BringCallerBack() const {
    cpu_set_t may;
    if (sched_getaffinity(0, sizeof(may), &may) != 0 || !CPU_ISSET(cpus_[0], &may)) return;
    const cpu_set_t first = OneCpu(cpus_[0]);
    if (sched_setaffinity(0, sizeof(first), &first) != 0) return;
    sched_setaffinity(0, sizeof(may), &may);
  }

  // False when the system gives no thread: then no other is asked for.
  bool BeginHelper() {
    const auto n_helpers = static_cast<int>(helpers_.size());
    try {
      helpers_.emplace_back([this, worker = n_helpers + 1] { team_.Help(worker); });
    } catch (const std::exception& error) {  // std::system_error, std::bad_alloc
      const int n_wanted = std::exchange(most_helpers_, n_helpers) + 1;
      if (warning_) {
        warning_(absl::StrCat("run.threads: only ", n_helpers + 1, " of ", n_wanted,
                              " threads could be begun (", error.what(),
                              "); the run goes on with them"));
      }
      return false;
    }
    team_.Expect();
    if (!cpus_.empty()) KeepToCpu(n_helpers + 1);
    return true;
  }

  // The last helper that began, from now on.
  void KeepToCpu(int worker) {
    const int cpu = cpus_[static_cast<size_t>(worker)];
    const cpu_set_t one = OneCpu(cpu);
    const int error = pthread_setaffinity_np(helpers_.back().native_handle(), sizeof(one), &one);
    if (error == 0 || !warning_) return;
    warning_(absl::StrCat("run.pin: worker ", worker, " cannot be kept on CPU ", cpu, " (",
                          std::strerror(error), "); the run goes on without"));
  }

  const int threads_;
  int most_helpers_;
  const std::vector<int> cpus_;
  const Tell warning_;  // may be empty
  Team team_;
  std::vector<std::thread> helpers_;
};

}  // namespace

std::unique_ptr<Executor> MakeExecutor(int threads, int n_cpus, Tell warning) {
  return std::make_unique<TeamExecutor>(threads, n_cpus, std::vector<int>(), std::move(warning));
}

std::unique_ptr<Executor> MakeExecutor(int threads, Tell warning) {
  return MakeExecutor(threads, AllowedCpus(), std::move(warning));
}

std::unique_ptr<Executor> MakePinnedExecutor(int threads, Tell warning) {
  std::vector<int> cpus = CpusOfCores().cpus;
  const auto n_cpus = static_cast<int>(cpus.size());
  return std::make_unique<TeamExecutor>(threads, n_cpus, std::move(cpus), std::move(warning));
}

int PhysicalCores() { return CpusOfCores().n_cores; }

}  // namespace ng
