#include "core/runtime/executor.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <xmmintrin.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ng/status.h"

namespace ng {
namespace {

constexpr unsigned kDefaultMxcsr = 0x1F80;
constexpr unsigned kMxcsrControl = 0xFFC0;  // all but the sticky exception flags

class ExecutorTest : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Executor> executor_ = MakeExecutor(GetParam());
};

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

INSTANTIATE_TEST_SUITE_P(Threads, ExecutorTest, testing::Range(1, 9));

// Restores the process's affinity.
class AffinityTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(sched_getaffinity(0, sizeof(saved_), &saved_), 0); }
  void TearDown() override { ASSERT_EQ(sched_setaffinity(0, sizeof(saved_), &saved_), 0); }

  void PinToOneCpu() {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &saved_)) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      return;
    }
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

TEST_F(AffinityTest, PhysicalCoresCountsOnlyCpusThatMayBeUsed) {
  const int all = PhysicalCores();
  EXPECT_GE(all, 1);
  EXPECT_LE(all, CPU_COUNT(&saved_));
  PinToOneCpu();
  EXPECT_EQ(PhysicalCores(), 1);
}

}  // namespace
}  // namespace ng
