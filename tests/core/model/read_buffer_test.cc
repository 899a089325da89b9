#include "core/model/load/read_buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace ng {
namespace {

TEST(ReadBuffer, IsTheSameMemoryUntilMoreIsAskedFor) {
  ReadBuffer buffer;
  std::byte* const first = buffer.Get(5 << 20).value();
  std::memset(first, 7, 5 << 20);
  EXPECT_EQ(buffer.Get(1).value(), first);
  EXPECT_EQ(buffer.Get(5 << 20).value(), first);
  EXPECT_EQ(first[(5 << 20) - 1], std::byte{7}) << "nothing was cleared";
  std::byte* const larger = buffer.Get(9 << 20).value();
  std::memset(larger, 0, 9 << 20);
}

TEST(ReadBuffer, SaysWhenThereIsNotEnoughAndCanBeAskedAgain) {
  ReadBuffer buffer;
  ASSERT_TRUE(buffer.Get(64).ok());
  EXPECT_EQ(ExitCode(buffer.Get(int64_t{1} << 60).status()), 5);
  EXPECT_TRUE(buffer.Get(64).ok());
}

}  // namespace
}  // namespace ng
