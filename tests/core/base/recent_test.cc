#include "ng/recent.h"

#include <gtest/gtest.h>

#include <string>

namespace ng::test {
namespace {

using Names = Recent<int, std::string>;

TEST(Recent, KeepsWhatWasAddedLast) {
  Names names(2, 100);
  EXPECT_EQ(names.Find(1), nullptr);
  EXPECT_EQ(*names.Add(1, "one", 10), "one");
  names.Add(2, "two", 10);
  EXPECT_EQ(*names.Find(1), "one");
  names.Add(3, "three", 10);
  EXPECT_EQ(names.Find(1), nullptr);
  EXPECT_EQ(*names.Find(2), "two");
  EXPECT_EQ(*names.Find(3), "three");
}

TEST(Recent, KeepsNoMoreThanItsRoom) {
  Names names(8, 100);
  names.Add(1, "one", 60);
  EXPECT_EQ(*names.Add(2, "too large", 101), "too large");
  EXPECT_EQ(names.Find(2), nullptr);
  EXPECT_EQ(*names.Find(1), "one");
  names.Add(3, "three", 60);
  EXPECT_EQ(names.Find(1), nullptr);
  EXPECT_EQ(*names.Find(3), "three");
}

}  // namespace
}  // namespace ng::test
