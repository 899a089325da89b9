#include "ng/conform/executor.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <vector>

namespace ng::conform {
namespace {

TEST(UnevenExecutor, DoesEveryItemOnceWithWorkersOfTheirOwn) {
  for (const int threads : {1, 2, 3, 7}) {
    UnevenExecutor executor(threads);
    for (const int64_t n : {0, 1, 2, 5, 64}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(n));
      std::vector<std::atomic<int>> ranges(static_cast<size_t>(threads));
      ASSERT_TRUE(ParallelFor(executor, n, [&](int64_t begin, int64_t end, int worker) {
                    ++ranges[static_cast<size_t>(worker)];
                    for (int64_t i = begin; i < end; ++i) ++done[static_cast<size_t>(i)];
                  }).ok());
      for (const auto& times : done) EXPECT_EQ(times, 1);
      for (const auto& times : ranges) EXPECT_LE(times, 1);
    }
    EXPECT_FALSE(executor.nested());
  }
}

TEST(UnevenExecutor, ReturnsWhatATaskThrows) {
  UnevenExecutor executor(3);
  const auto thrower = [](int64_t, int64_t, int) { throw std::runtime_error("boom"); };
  EXPECT_EQ(ParallelFor(executor, 3, thrower), RuntimeError("exception in a worker: boom"));
  EXPECT_TRUE(ParallelFor(executor, 3, [](int64_t, int64_t, int) {}).ok());
}

TEST(UnevenExecutor, NoticesARegionWithinARegion) {
  UnevenExecutor executor(2);
  const auto nested = [&](int64_t, int64_t, int) {
    EXPECT_FALSE(ParallelFor(executor, 1, [](int64_t, int64_t, int) {}).ok());
  };
  EXPECT_FALSE(ParallelFor(executor, 2, nested).ok());
  EXPECT_TRUE(executor.nested());
}

}  // namespace
}  // namespace ng::conform
