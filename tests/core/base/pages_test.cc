// Memory from the system.
#include "ng/pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>

namespace ng {
namespace {

TEST(MapPages, GivesAlignedZerosThatCanBeWritten) {
  for (const int64_t bytes :
       {int64_t{1}, int64_t{5000}, int64_t{2} << 20, (int64_t{5} << 20) + 3}) {
    const auto pages = MapPages(bytes);
    ASSERT_NE(pages, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pages.get()) % 64, 0U);
    EXPECT_TRUE(std::all_of(pages.get(), pages.get() + bytes,
                            [](std::byte b) { return b == std::byte{0}; }));
    pages.get()[0] = pages.get()[bytes - 1] = std::byte{7};
  }
}

TEST(MapPages, BeginsAtAHugePageWhenThereIsOne) {
  const auto pages = MapPages(int64_t{3} << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pages.get()) % (2 << 20), 0U);
}

TEST(MapPages, IsNullAndSaysWhyWhenTheSystemRefuses) {
  errno = 0;
  EXPECT_EQ(MapPages(int64_t{1} << 60), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

}  // namespace
}  // namespace ng
