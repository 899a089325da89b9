#include "core/machine/helpers.h"

#include <pthread.h>
#include <sched.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/machine/cpus.h"

namespace ng {
namespace {

using Control = tbb::global_control;

// What the CPU set of a thread is while a helper keeps to one CPU; then its own again, since
// oneTBB's workers go on to other work.
class KeptToCpu {
 public:
  explicit KeptToCpu(int cpu) {
    if (sched_getaffinity(0, sizeof(saved_), &saved_) != 0) return;
    is_kept_ = KeepThreadOn(cpu);
    if (!is_kept_) error_ = errno;
  }
  ~KeptToCpu() {
    if (is_kept_) sched_setaffinity(0, sizeof(saved_), &saved_);
  }
  KeptToCpu(const KeptToCpu&) = delete;
  KeptToCpu& operator=(const KeptToCpu&) = delete;

  int error() const { return error_; }

 private:
  cpu_set_t saved_;
  bool is_kept_ = false;
  int error_ = 0;
};

// How many threads the system gives at one time, up to n, each with the memory to begin with.
// They end before this returns.
int ThreadsAtOnce(int n, std::exception_ptr* why) {
  constexpr size_t kBytesToBeginWith = size_t{1} << 20;
  std::atomic<bool> may_end{false};
  std::atomic<int> n_ready{0};
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(n));
  try {
    while (std::ssize(threads) < n) {
      threads.emplace_back([&] {
        const std::unique_ptr<char[]> memory(new (std::nothrow) char[kBytesToBeginWith]);
        if (memory != nullptr) ++n_ready;
        may_end.wait(false);
      });
    }
  } catch (const std::exception&) {  // std::system_error, std::bad_alloc
    *why = std::current_exception();
  }
  may_end = true;
  may_end.notify_all();
  for (std::thread& thread : threads) thread.join();
  if (n_ready < std::ssize(threads)) *why = std::make_exception_ptr(std::bad_alloc());
  return n_ready;
}

}  // namespace

// What the tasks share, which oneTBB may begin when their executor is gone.
struct Helpers::Shared {
  explicit Shared(std::shared_ptr<Team> of) : team(std::move(of)) {}

  // [helper]
  void Help(int worker, uint32_t term, int cpu) {
    ++n_inside;
    {
      std::optional<KeptToCpu> kept;
      if (cpu >= 0) kept.emplace(cpu);
      if (kept.has_value() && kept->error() != 0) AddPinFault(worker, cpu, kept->error());
      team->Help(worker, term);
    }
    --n_inside;
    --n_tasks;
  }

  void AddPinFault(int worker, int cpu, int error) {
    const std::lock_guard lock(mutex);
    pin_faults.push_back(absl::StrCat("worker ", worker, " cannot be kept on CPU ", cpu, " (",
                                      std::strerror(error), ")"));
    has_pin_faults = true;
  }

  const std::shared_ptr<Team> team;
  std::atomic<int> n_tasks{0};   // that oneTBB was given and that have not ended
  std::atomic<int> n_inside{0};  // of these, begun
  std::atomic<bool> has_pin_faults{false};
  std::mutex mutex;
  std::vector<std::string> pin_faults;
};

struct Helpers::Arena {
  // One place more than helpers, which is kept for threads that are not oneTBB's.
  explicit Arena(int n) : n_helpers(n), arena(n + 1, 1) {}

  int n_helpers;
  tbb::task_arena arena;
};

// What of oneTBB is the process's. Every call takes the lock: engines open and close on any thread.
class Helpers::Keeper {
 public:
  static Keeper& OfProcess() {
    static Keeper& keeper = *new Keeper;  // never destroyed: a process may fork until it ends
    return keeper;
  }

  int Begin(Helpers& helpers, int n, std::exception_ptr* why) {
    const std::lock_guard lock(mutex_);
    if (lost_ != nullptr) {
      *why = std::make_exception_ptr(std::runtime_error(lost_));
      return 0;
    }
    int n_begun = 0;
    try {
      if (std::ranges::find(open_, &helpers) == open_.end()) open_.push_back(&helpers);
      // oneTBB keeps a place for each thread that has called it, for as long as the thread lives,
      // and cannot be taken down before a fork meanwhile. This one ends at once.
      std::thread([&] { n_begun = BeginHere(helpers, n, why); }).join();
    } catch (const std::exception&) {  // std::system_error, std::bad_alloc
      *why = std::current_exception();
    }
    return n_begun;
  }

  void Remove(Helpers& helpers) {
    const std::lock_guard lock(mutex_);
    std::erase(open_, &helpers);
    End(helpers);
    // What oneTBB would do about it may wait for ever for a thread that it could not begin.
    if (lost_ != nullptr) return;
    try {
      Allow(NumHelpers());
    } catch (const std::bad_alloc&) {  // then it stays as large as it was
    }
  }

 private:
  Keeper() {
    // Where there is no memory for these, the child of a fork has no helpers, and nothing worse.
    pthread_atfork([] { OfProcess().BeforeFork(); }, [] { OfProcess().AfterFork(false); },
                   [] { OfProcess().AfterFork(true); });
  }

  // [a thread of its own] Throws nothing.
  int BeginHere(Helpers& helpers, int n, std::exception_ptr* why) {
    Shared& shared = *helpers.shared_;
    int n_begun = 0;
    try {
      const int n_others = NumHelpers();
      int n_workers = ThreadsAtOnce(n, why);
      if (n_workers > 0) n_workers = std::min(n_workers, Allow(n_others + n_workers) - n_others);
      if (n_workers < n && *why == nullptr) {
        *why = std::make_exception_ptr(std::runtime_error("the program allows oneTBB no more"));
      }
      if (n_workers <= 0) return 0;
      helpers.arena_ = std::make_unique<Arena>(n_workers);
      const uint32_t term = shared.team->Recruit(n_workers);
      while (n_begun < n_workers) {
        const int worker = n_begun + 1;
        const int cpu = helpers.cpus_.empty() ? -1 : helpers.cpus_[static_cast<size_t>(worker)];
        ++shared.n_tasks;
        helpers.arena_->arena.enqueue(
            [shared = helpers.shared_, worker, term, cpu] { shared->Help(worker, term, cpu); });
        n_begun = worker;
      }
    } catch (const std::exception&) {  // std::bad_alloc; std::runtime_error: no thread
      *why = std::current_exception();
      if (helpers.arena_ != nullptr) lost_ = "oneTBB could not begin a thread before";
      shared.team->Recruit(n_begun);
    }
    return n_begun;
  }

  // Lets oneTBB have so many workers, and the thread that calls. Returns how many it has then: a
  // program that embeds the engine may have a control of its own, and the least one counts.
  int Allow(int n_workers) {
    std::unique_ptr<Control> control;
    if (n_workers > 0) control = std::make_unique<Control>(kWorkers, 1 + size_t(n_workers));
    control_.swap(control);
    control.reset();  // only now, so that there is no moment without any
    return static_cast<int>(Control::active_value(kWorkers)) - 1;
  }

  int NumHelpers() const {
    int n = 0;
    for (const Helpers* helpers : open_) n += helpers->arena_ ? helpers->arena_->n_helpers : 0;
    return n;
  }

  // Whoever is in a region finishes it first. Tasks that oneTBB has not begun yet end as soon as it
  // does; whether all have ended. The others keep what they use.
  bool End(Helpers& helpers) const {
    const Shared& shared = *helpers.shared_;
    shared.team->Dismiss();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    const auto is_patient = [&] {
      return lost_ == nullptr && std::chrono::steady_clock::now() < deadline;
    };
    while (shared.n_inside != 0 || (shared.n_tasks != 0 && is_patient())) std::this_thread::yield();
    helpers.arena_.reset();
    return shared.n_tasks == 0;
  }

  // A forked process has the thread alone that forked, and oneTBB in it would wait for ever for
  // workers that are not there. So it is taken down first; either process begins helpers again.
  void BeforeFork() {
    mutex_.lock();
    goes_along_ = lost_ == nullptr && !Team::IsInsideAny();
    if (Team::IsInsideAny()) return;  // its helpers cannot leave before it comes back
    for (Helpers* helpers : open_) goes_along_ = End(*helpers) && goes_along_;
    control_.reset();
    goes_along_ = goes_along_ && TakeDown();
  }

  // Whether nobody else in this process uses oneTBB.
  static bool TakeDown() {
    try {
      tbb::task_scheduler_handle handle{tbb::attach{}};
      return tbb::finalize(handle, std::nothrow);
    } catch (const std::exception&) {
      return false;
    }
  }

  void AfterFork(bool is_child) {
    if (is_child && !goes_along_) lost_ = "of a process that uses oneTBB a fork has no threads";
    mutex_.unlock();
  }

  static constexpr auto kWorkers = Control::max_allowed_parallelism;

  std::mutex mutex_;
  std::vector<Helpers*> open_;  // that have begun
  std::unique_ptr<Control> control_;
  const char* lost_ = nullptr;  // why oneTBB can begin nothing any more
  bool goes_along_ = true;      // a fork finds oneTBB as it is in a new process
};

Helpers::Helpers(std::shared_ptr<Team> team, std::vector<int> cpus)
    : cpus_(std::move(cpus)), shared_(std::make_shared<Shared>(std::move(team))) {}

Helpers::~Helpers() {
  if (has_begun_) Keeper::OfProcess().Remove(*this);
}

int Helpers::Begin(int n, std::exception_ptr* why) {
  has_begun_ = true;
  return Keeper::OfProcess().Begin(*this, n, why);
}

std::vector<std::string> Helpers::TakePinFaults() {
  if (!shared_->has_pin_faults.load(std::memory_order_relaxed)) return {};
  const std::lock_guard lock(shared_->mutex);
  shared_->has_pin_faults = false;
  return std::exchange(shared_->pin_faults, {});
}

}  // namespace ng
