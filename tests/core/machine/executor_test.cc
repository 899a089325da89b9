#include "core/machine/executor.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tbb/global_control.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/machine/cpus.h"
#include "ng/status.h"

namespace ng {
namespace {

constexpr unsigned kDefaultMxcsr = 0x1F80;
constexpr unsigned kMxcsrControl = 0xFFC0;  // all but the sticky exception flags

// As many CPUs as threads: on a smaller machine the threads take turns, as on a loaded one.
class ExecutorTest : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Executor> executor_ = MakeExecutor(GetParam(), GetParam());
};

double CpuSeconds() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

TEST_P(ExecutorTest, RunsEveryItemOnce) {
  for (const int64_t n_items : {0, 1, 2, 3, 7, 64, 1000}) {
    std::vector<std::atomic<int>> count(static_cast<size_t>(n_items));
    ASSERT_TRUE(ParallelFor(*executor_, n_items, [&](int64_t begin, int64_t end, int) {
                  for (int64_t i = begin; i < end; ++i) ++count[static_cast<size_t>(i)];
                }).ok());
    for (const auto& c : count) EXPECT_EQ(c.load(), 1);
  }
}

TEST_P(ExecutorTest, KeepsEveryThreadToItsShare) {
  const int64_t n_items = 1003;
  ASSERT_TRUE(ParallelFor(*executor_, n_items, [&](int64_t begin, int64_t end, int) {
                EXPECT_LE(end - begin, n_items / GetParam() + 1);
                EXPECT_GE(end - begin, n_items / GetParam());
              }).ok());
}

TEST_P(ExecutorTest, NeverGivesOneWorkerNumberToTwoCallsAtATime) {
  EXPECT_EQ(executor_->threads(), GetParam());
  std::vector<std::atomic<int>> busy(static_cast<size_t>(GetParam()));
  for (int repeat = 0; repeat < 200; ++repeat) {
    ASSERT_TRUE(ParallelFor(*executor_, 16, [&](int64_t, int64_t, int worker) {
                  ASSERT_GE(worker, 0);
                  ASSERT_LT(worker, GetParam());
                  EXPECT_EQ(busy[static_cast<size_t>(worker)].fetch_add(1), 0);
                  busy[static_cast<size_t>(worker)].fetch_sub(1);
                }).ok());
  }
}

TEST_P(ExecutorTest, RefusesARegionInsideARegion) {
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::atomic<int> n_run{0};
    const absl::Status outer = ParallelFor(*executor_, 4, [&](int64_t, int64_t, int) {
      const absl::Status inner =
          ParallelFor(*executor_, 4, [&](int64_t, int64_t, int) { ++n_run; });
      EXPECT_EQ(ExitCode(inner), 1);
    });
    EXPECT_EQ(n_run, 0);
    EXPECT_NE(outer.message().find("regions do not nest"), outer.message().npos) << outer;
    EXPECT_TRUE(ParallelFor(*executor_, 4, [&](int64_t, int64_t, int) { ++n_run; }).ok());
    EXPECT_GT(n_run, 0);
  }
}

TEST_P(ExecutorTest, TurnsTheFirstExceptionIntoAStatusAndFinishesTheRest) {
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::atomic<int> finished{0};
    const absl::Status status =
        ParallelFor(*executor_, GetParam(), [&](int64_t begin, int64_t end, int) {
          if (begin == 0) throw std::runtime_error("boom");
          finished += static_cast<int>(end - begin);
        });
    EXPECT_EQ(status, RuntimeError("exception in a worker: boom"));
    EXPECT_EQ(finished.load(), GetParam() - 1);
  }
}

TEST_P(ExecutorTest, TellsWantOfMemoryFromOtherExceptions) {
  const absl::Status status =
      ParallelFor(*executor_, 64, [](int64_t, int64_t, int) { throw std::bad_alloc(); });
  EXPECT_EQ(status, LimitError("out of memory"));
}

TEST_P(ExecutorTest, SurvivesExceptionsInAllRanges) {
  for (int repeat = 0; repeat < 200; ++repeat) {
    const absl::Status status =
        ParallelFor(*executor_, 64, [](int64_t, int64_t, int worker) { throw worker; });
    EXPECT_EQ(status, RuntimeError("exception in a worker: an exception of unknown type"));
  }
  EXPECT_TRUE(ParallelFor(*executor_, 64, [](int64_t, int64_t, int) {}).ok());
}

TEST_P(ExecutorTest, RunsTasksInTheDefaultFloatEnvironmentAndRestoresTheCallers) {
  const unsigned saved = _mm_getcsr();
  const unsigned flush_and_round_down = kDefaultMxcsr | _MM_FLUSH_ZERO_ON | _MM_ROUND_DOWN;
  _mm_setcsr(flush_and_round_down);
  std::atomic<int> wrong{0};
  const absl::Status status = ParallelFor(*executor_, 64, [&](int64_t, int64_t, int) {
    if ((_mm_getcsr() & kMxcsrControl) != kDefaultMxcsr) ++wrong;
  });
  const unsigned after = _mm_getcsr() & kMxcsrControl;
  _mm_setcsr(saved);
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(after, flush_and_round_down);
}

TEST_P(ExecutorTest, SplitsTheLargestCountWithoutOverflow) {
  const int64_t n_items = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> total{0};
  ASSERT_TRUE(ParallelFor(*executor_, n_items, [&](int64_t begin, int64_t end, int) {
                total += end - begin;
              }).ok());
  EXPECT_EQ(total.load(), n_items);
}

// A helper that comes late to one region meets the next: each must see its own context only.
TEST_P(ExecutorTest, RunsManyTinyRegionsEachInItsOwnContext) {
  constexpr int64_t kItems = 5;
  for (int64_t region = 0; region < 5000; ++region) {
    std::array<std::atomic<int64_t>, kItems> seen = {};
    ASSERT_TRUE(ParallelFor(*executor_, kItems, [&seen, region](int64_t begin, int64_t end, int) {
                  for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)] += region + 1;
                }).ok());
    for (const auto& value : seen) ASSERT_EQ(value.load(), region + 1);
  }
}

TEST_P(ExecutorTest, RunsRegionsOfChangingSizes) {
  int64_t expected = 0;
  std::atomic<int64_t> sum{0};
  for (int64_t region = 0; region < 2000; ++region) {
    const int64_t n_items = region % 11;
    ASSERT_TRUE(ParallelFor(*executor_, n_items, [&](int64_t begin, int64_t end, int) {
                  sum += end - begin;
                }).ok());
    expected += n_items;
  }
  EXPECT_EQ(sum.load(), expected);
}

TEST_P(ExecutorTest, ComesBackAfterItsThreadsWentToSleep) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<int64_t> sum{0};
    ASSERT_TRUE(ParallelFor(*executor_, 64, [&](int64_t begin, int64_t end, int) {
                  sum += end - begin;
                }).ok());
    EXPECT_EQ(sum.load(), 64);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST_P(ExecutorTest, EndsRightAfterItsFirstRegion) {
  for (int repeat = 0; repeat < 200; ++repeat) {
    const auto executor = MakeExecutor(GetParam(), GetParam());
    std::atomic<int64_t> sum{0};
    ASSERT_TRUE(ParallelFor(*executor, 64, [&](int64_t begin, int64_t end, int) {
                  sum += end - begin;
                }).ok());
    EXPECT_EQ(sum.load(), 64);
  }
}

TEST_P(ExecutorTest, GoesToSleepWhenIdle) {
  for (int repeat = 0; repeat < 100; ++repeat) {
    ASSERT_TRUE(ParallelFor(*executor_, 64, [](int64_t, int64_t, int) {}).ok());
  }
  // On a loaded machine it takes the threads a while to get to where they go to sleep.
  constexpr int kMostTries = 100;
  double used = 1.0;
  for (int tries = 0; tries < kMostTries && used > 0.005; ++tries) {
    const double before = CpuSeconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    used = CpuSeconds() - before;
  }
  EXPECT_LE(used, 0.005);
}

TEST_P(ExecutorTest, FinishesBesideBusyThreads) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 6; ++i) {
    busy.emplace_back([&stop] {
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
  }
  std::atomic<int64_t> sum{0};
  for (int repeat = 0; repeat < 200; ++repeat) {
    EXPECT_TRUE(ParallelFor(*executor_, 100, [&](int64_t begin, int64_t end, int) {
                  for (int64_t i = begin; i < end; ++i) sum += i;
                }).ok());
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_EQ(sum.load(), 200 * 4950);
}

INSTANTIATE_TEST_SUITE_P(Threads, ExecutorTest, testing::Range(1, 9));

TEST(ExecutorsTest, WorkSideBySideInOneProcess) {
  std::array<std::atomic<int64_t>, 3> sums = {};
  std::vector<std::thread> callers;
  for (std::atomic<int64_t>& sum : sums) {
    callers.emplace_back([&sum] {
      const auto executor = MakeExecutor(3, 3);
      for (int repeat = 0; repeat < 1000; ++repeat) {
        EXPECT_TRUE(ParallelFor(*executor, 10, [&](int64_t begin, int64_t end, int) {
                      sum += end - begin;
                    }).ok());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const std::atomic<int64_t>& sum : sums) EXPECT_EQ(sum.load(), 10000);
}

TEST(ExecutorsTest, SpreadARegionOverTheThreads) {
  const auto executor = MakeExecutor(2, 2);
  std::set<int> workers;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (workers.size() < 2 && std::chrono::steady_clock::now() < deadline) {
    std::array<int, 2> worker_of = {};
    ASSERT_TRUE(ParallelFor(*executor, 2, [&](int64_t begin, int64_t, int worker) {
                  worker_of[static_cast<size_t>(begin)] = worker;
                  std::this_thread::sleep_for(std::chrono::microseconds(100));
                }).ok());
    workers.insert(worker_of.begin(), worker_of.end());
  }
  EXPECT_EQ(workers, (std::set<int>{0, 1}));
}

// Packed weights are near the worker that reads them only if it is the same in every step.
TEST(ExecutorsTest, EveryWorkerBeginsWithItsOwnRange) {
  using Clock = std::chrono::steady_clock;
  constexpr int kThreads = 4;
  const std::unique_ptr<Executor> executor = MakeExecutor(kThreads, kThreads);
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
  int n_seen = 0;
  while (n_seen < 100 && Clock::now() < deadline) {
    std::atomic<int> begun = 0;
    std::atomic<bool> waited = false;
    std::array<int, kThreads> worker_of = {};
    ASSERT_TRUE(ParallelFor(*executor, kThreads, [&](int64_t begin, int64_t, int worker) {
                  worker_of[static_cast<size_t>(begin)] = worker;
                  ++begun;
                  // Nobody is done before all have begun, so none does another one's range. A
                  // helper may sleep through a region, though; then its range is another one's.
                  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(50);
                  while (begun.load() < kThreads && !waited) {
                    if (Clock::now() > end) waited = true;
                    std::this_thread::yield();
                  }
                }).ok());
    if (waited) continue;
    EXPECT_EQ(worker_of, (std::array<int, kThreads>{0, 1, 2, 3}));
    ++n_seen;
  }
  EXPECT_EQ(n_seen, 100);
}

TEST(ExecutorsTest, WithFewerThreadsThanAskedForDoAllAndSaySoOnce) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer takes terabytes of addresses";
#endif
  rlimit saved;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &saved), 0);
  std::vector<std::string> told;
  told.reserve(8);
  const auto executor =
      MakeExecutor(64, 64, [&](std::string_view text) { told.emplace_back(text); });
  std::atomic<int64_t> sum{0};
  int64_t n_ok = 0;
  const rlimit none = {1 << 20, saved.rlim_max};  // less than there is: no stack but a few kept
  setrlimit(RLIMIT_AS, &none);
  for (int repeat = 0; repeat < 3; ++repeat) {
    n_ok += ParallelFor(*executor, 64, [&](int64_t begin, int64_t end, int) {
              sum += end - begin;
            }).ok();
  }
  setrlimit(RLIMIT_AS, &saved);
  EXPECT_EQ(n_ok, 3);
  EXPECT_EQ(sum.load(), 3 * 64);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].rfind("run.threads: only ", 0), 0U) << told[0];
  EXPECT_NE(told[0].find(" of 64 threads could be begun ("), std::string::npos) << told[0];
}

// Which workers take part: each range waits for the others, for a while.
std::set<int> WorkersOf(Executor& executor) {
  using Clock = std::chrono::steady_clock;
  const int n = executor.threads();
  std::set<int> workers;
  const auto deadline = Clock::now() + std::chrono::seconds(60);
  while (std::ssize(workers) < n && Clock::now() < deadline) {
    std::atomic<int> begun = 0;
    std::mutex mutex;
    EXPECT_TRUE(ParallelFor(executor, n, [&](int64_t, int64_t, int worker) {
                  ++begun;
                  const auto end = Clock::now() + std::chrono::milliseconds(20);
                  while (begun < n && Clock::now() < end) std::this_thread::yield();
                  const std::lock_guard lock(mutex);
                  workers.insert(worker);
                }).ok());
  }
  return workers;
}

// oneTBB's limit is the process's, and a helper that sleeps keeps its worker.
TEST(ExecutorsTest, HaveAllTheirHelpersWhileThoseOfOthersSleep) {
  const auto two = MakeExecutor(2, 2);
  EXPECT_EQ(WorkersOf(*two), (std::set<int>{0, 1}));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  {
    const auto four = MakeExecutor(4, 4);
    EXPECT_EQ(WorkersOf(*four), (std::set<int>{0, 1, 2, 3}));
    EXPECT_EQ(WorkersOf(*two), (std::set<int>{0, 1}));
    EXPECT_EQ(tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism), 5U);
  }
  EXPECT_EQ(tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism), 2U);
  EXPECT_EQ(WorkersOf(*two), (std::set<int>{0, 1}));
  const auto three = MakeExecutor(3, 3);
  EXPECT_EQ(WorkersOf(*three), (std::set<int>{0, 1, 2}));
}

TEST(ExecutorsTest, HaveAsManyHelpersAsTheProgramAllowsOneTbb) {
  const tbb::global_control control(tbb::global_control::max_allowed_parallelism, 3);
  std::vector<std::string> told;
  const auto executor = MakeExecutor(8, 8, [&](std::string_view text) { told.emplace_back(text); });
  std::atomic<int64_t> sum{0};
  for (int repeat = 0; repeat < 100; ++repeat) {
    ASSERT_TRUE(ParallelFor(*executor, 64, [&](int64_t begin, int64_t end, int) {
                  sum += end - begin;
                }).ok());
  }
  EXPECT_EQ(sum.load(), 6400);
  EXPECT_EQ(told, (std::vector<std::string>{
                      "run.threads: only 3 of 8 threads could be begun (the program allows oneTBB "
                      "no more); the run goes on with them"}));
}

// The exit code of a child that does `work`, which returns it; -1 if it does not end by itself.
template <typename Work>
int InAChild(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // no test waits for ever
    _exit(work());
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

// A child has the forking thread alone; it and its parent get new helpers.
TEST(ExecutorsTest, HaveTheirHelpersInAForkedChildToo) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer of threads does not follow a fork";
#endif
  const auto inherited = MakeExecutor(2, 2);
  const auto asleep = MakeExecutor(4, 4);
  EXPECT_EQ(WorkersOf(*inherited).size(), 2U);
  EXPECT_EQ(WorkersOf(*asleep).size(), 4U);
  for (int repeat = 0; repeat < 10; ++repeat) {
    EXPECT_EQ(InAChild([&] {
                const auto own = MakeExecutor(3, 3);
                return static_cast<int>(WorkersOf(*own).size() * 10 + WorkersOf(*inherited).size());
              }),
              32);
    if (repeat % 2 == 0) {
      EXPECT_EQ(WorkersOf(*asleep).size(), 4U);
    }
  }
  EXPECT_EQ(WorkersOf(*inherited).size(), 2U);
}

// Its helpers cannot leave before the fork comes back: the child computes alone, and says so.
TEST(ExecutorsTest, ComputeAloneInAChildForkedByATask) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer of threads does not follow a fork";
#endif
  const auto executor = MakeExecutor(2, 2);
  EXPECT_EQ(WorkersOf(*executor).size(), 2U);
  std::atomic<int> code = -2;
  ASSERT_TRUE(ParallelFor(*executor, 2, [&](int64_t begin, int64_t, int) {
                if (begin != 0) return;
                code = InAChild([] {
                  int n_told = 0;
                  const auto own = MakeExecutor(3, 3, [&](std::string_view) { ++n_told; });
                  std::atomic<int> n_run = 0;
                  for (int repeat = 0; repeat < 5; ++repeat) {
                    if (!ParallelFor(*own, 3, [&](int64_t, int64_t, int) { ++n_run; }).ok())
                      return 1;
                  }
                  return n_run == 15 && n_told == 1 ? 0 : 2;
                });
              }).ok());
  EXPECT_EQ(code, 0);
  EXPECT_EQ(WorkersOf(*executor).size(), 2U);
}

// A fork waits for a region that another thread runs, and disturbs none.
TEST(ExecutorsTest, RunWhileOtherThreadsFork) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer of threads does not follow a fork";
#endif
  const auto executor = MakeExecutor(3, 3);
  std::atomic<bool> stop = false;
  std::atomic<int64_t> sum = 0;
  int64_t n_regions = 0;
  std::thread caller([&] {
    while (!stop) {
      ++n_regions;
      EXPECT_TRUE(ParallelFor(*executor, 30, [&](int64_t begin, int64_t end, int) {
                    sum += end - begin;
                  }).ok());
    }
  });
  for (int repeat = 0; repeat < 50; ++repeat) EXPECT_EQ(InAChild([] { return 7; }), 7);
  stop = true;
  caller.join();
  EXPECT_EQ(sum, 30 * n_regions);
}

// Restores the process's affinity.
class AffinityTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(sched_getaffinity(0, sizeof(saved_), &saved_), 0); }
  void TearDown() override { ASSERT_EQ(sched_setaffinity(0, sizeof(saved_), &saved_), 0); }

  static void PinTo(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }
  void PinToOneCpu() {
    int cpu = 0;
    while (!CPU_ISSET(cpu, &saved_)) ++cpu;
    PinTo(cpu);
  }

  cpu_set_t saved_;
};

TEST_F(AffinityTest, FourThreadsOnOneCpuDoEveryItem) {
  PinToOneCpu();
  const auto executor = MakeExecutor(4);
  std::atomic<int64_t> sum{0};
  for (int repeat = 0; repeat < 100; ++repeat) {
    ASSERT_TRUE(ParallelFor(*executor, 100, [&](int64_t begin, int64_t end, int) {
                  for (int64_t i = begin; i < end; ++i) sum += i;
                }).ok());
  }
  EXPECT_EQ(sum.load(), 100 * 4950);
}

// The CPUs that each worker of an executor may run on.
std::map<int, std::set<int>> CpusOfWorkers(Executor& executor, int n_workers) {
  std::map<int, std::set<int>> cpus;
  std::mutex mutex;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::ssize(cpus) < n_workers && std::chrono::steady_clock::now() < deadline) {
    EXPECT_TRUE(ParallelFor(executor, n_workers, [&](int64_t, int64_t, int worker) {
                  std::this_thread::sleep_for(std::chrono::milliseconds(1));
                  cpu_set_t may;
                  EXPECT_EQ(sched_getaffinity(0, sizeof(may), &may), 0);
                  const std::lock_guard lock(mutex);
                  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
                    if (CPU_ISSET(cpu, &may)) cpus[worker].insert(cpu);
                  }
                }).ok());
  }
  return cpus;
}

TEST_F(AffinityTest, PinnedHelpersKeepToOneCpuEachAndLeaveOneToTheCaller) {
  const int n = std::min(CPU_COUNT(&saved_), 4);
  if (n < 2) GTEST_SKIP() << "one CPU has no helpers";
  std::set<int> all;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &saved_)) all.insert(cpu);
  }
  std::vector<std::string> told;
  const auto executor =
      MakePinnedExecutor(n, [&](std::string_view text) { told.emplace_back(text); });
  const std::map<int, std::set<int>> cpus = CpusOfWorkers(*executor, n);
  ASSERT_EQ(cpus.size(), static_cast<size_t>(n));
  EXPECT_EQ(cpus.at(0), all);
  std::set<int> of_helpers;
  for (int worker = 1; worker < n; ++worker) {
    EXPECT_EQ(cpus.at(worker).size(), 1U);
    of_helpers.insert(cpus.at(worker).begin(), cpus.at(worker).end());
  }
  EXPECT_EQ(of_helpers.size(), static_cast<size_t>(n - 1));
  EXPECT_TRUE(told.empty());
}

TEST_F(AffinityTest, APinnedRegionBringsItsCallerBackToTheFirstCore) {
  if (CPU_COUNT(&saved_) < 2) GTEST_SKIP() << "one CPU has no other";
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &saved_)) cpus.push_back(cpu);
  }
  const auto executor = MakePinnedExecutor(1);
  const auto cpu_of_caller = [&] {
    int found = -1;
    EXPECT_TRUE(
        ParallelFor(*executor, 1, [&](int64_t, int64_t, int) { found = sched_getcpu(); }).ok());
    return found;
  };
  int n_back = 0;
  for (int repeat = 0; repeat < 20; ++repeat) {
    PinTo(cpus.back());
    EXPECT_EQ(cpu_of_caller(), cpus.back());  // it may not leave
    ASSERT_EQ(sched_setaffinity(0, sizeof(saved_), &saved_), 0);
    n_back += cpu_of_caller() == cpus.front() ? 1 : 0;
    cpu_set_t may;
    ASSERT_EQ(sched_getaffinity(0, sizeof(may), &may), 0);
    EXPECT_TRUE(CPU_EQUAL(&may, &saved_));
  }
  EXPECT_GE(n_back, 15);  // where the machine is busy, the system may move it on at once
}

TEST_F(AffinityTest, PhysicalCoresCountsOnlyCpusThatMayBeUsed) {
  const int all = PhysicalCores();
  EXPECT_GE(all, 1);
  EXPECT_LE(all, CPU_COUNT(&saved_));
  PinToOneCpu();
  EXPECT_EQ(PhysicalCores(), 1);
  EXPECT_EQ(DefaultThreads(), 1);
}

}  // namespace
}  // namespace ng
