#include "core/base/checked.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace ng {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr uint64_t kUnsignedMax = std::numeric_limits<uint64_t>::max();

TEST(Checked, GivesResultsThatFit) {
  EXPECT_EQ(CheckedAdd<int64_t>(kMax - 1, 1), kMax);
  EXPECT_EQ(CheckedMul<int64_t>(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_EQ(CheckedMul<uint64_t>(uint64_t{1} << 32, (uint64_t{1} << 32) - 1), kUnsignedMax << 32);
  EXPECT_EQ(CheckedMul<int64_t>(0, kMax), 0);
}

TEST(Checked, RefusesResultsThatWouldWrap) {
  EXPECT_FALSE(CheckedAdd<int64_t>(kMax, 1));
  EXPECT_FALSE(CheckedAdd<uint64_t>(kUnsignedMax, 1));
  EXPECT_FALSE(CheckedMul<int64_t>(int64_t{1} << 32, int64_t{1} << 31));
  EXPECT_FALSE(CheckedMul<uint64_t>(uint64_t{1} << 32, uint64_t{1} << 32));
}

TEST(Checked, SaturatesAtTheLargestSize) {
  EXPECT_EQ(SaturatingAdd(kMax - 1, 1), kMax);
  EXPECT_EQ(SaturatingAdd(kMax, kMax), kMax);
  EXPECT_EQ(SaturatingMul(int64_t{1} << 40, int64_t{1} << 30), kMax);
  EXPECT_EQ(SaturatingMul(3, 5), 15);
}

}  // namespace
}  // namespace ng
