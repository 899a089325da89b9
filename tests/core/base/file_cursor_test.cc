#include "core/base/file_cursor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

constexpr size_t kSize = 300'000;  // several windows

std::string Letters() {
  std::string text;
  for (size_t i = 0; i < kSize; ++i) text += static_cast<char>('a' + i % 26);
  return text;
}

TEST(FileCursor, GivesTheFileInPiecesOfAnySize) {
  const test::TempDir folder;
  const std::string text = Letters();
  const InputFile file = InputFile::Open(folder.Write("f", text)).value();
  for (const size_t piece : {7UL, 65536UL, 65537UL, 200'000UL, kSize}) {
    FileCursor cursor(file, kSize);
    std::string read;
    while (cursor.left() > 0) {
      const auto bytes = cursor.Bytes(std::min<uint64_t>(piece, cursor.left()), "letters");
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      read += *bytes;
      ASSERT_EQ(cursor.position(), read.size());
    }
    EXPECT_TRUE(read == text) << piece;
  }
}

TEST(FileCursor, ReadsNumbersAndStopsAtTheEndTakingNothing) {
  const test::TempDir folder;
  const std::string bytes("\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00", 14);
  const InputFile file = InputFile::Open(folder.Write("f", bytes)).value();
  FileCursor cursor(file, 1000);
  EXPECT_EQ(cursor.U32("a").value(), 1U);
  EXPECT_EQ(cursor.U64("b").value(), 2U);
  const absl::Status status = cursor.U32("the count").status();
  EXPECT_EQ(ExitCode(status), 3);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/f: ends in the count at byte 12"));
  EXPECT_EQ(cursor.position(), 12U);
  EXPECT_FALSE(cursor.Bytes(~uint64_t{0}, "all").ok());
}

TEST(FileCursor, ReadsNoFurtherThanItMay) {
  const test::TempDir folder;
  const InputFile file = InputFile::Open(folder.Write("f", Letters())).value();
  FileCursor cursor(file, 100);
  EXPECT_TRUE(cursor.Bytes(60, "letters").ok());
  EXPECT_THAT(std::string(cursor.Bytes(41, "letters").status().message()),
              HasSubstr("has a header of more than 100 bytes"));
  EXPECT_TRUE(cursor.Bytes(40, "letters").ok());
}

}  // namespace
}  // namespace ng
