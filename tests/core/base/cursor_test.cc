#include "core/base/cursor.h"

#include <gtest/gtest.h>

#include <string>

namespace ng {
namespace {

TEST(Cursor, ReadsLittleEndianValuesInTurn) {
  const std::string bytes(
      "\x01"
      "\x02\x03"
      "\x04\x05\x06\x87"
      "\x01\x02\x03\x04\x05\x06\x07\x88"
      "\x00\x00\xC0\xBF",
      19);
  Cursor cursor(bytes);
  EXPECT_EQ(cursor.U8(), 0x01);
  EXPECT_EQ(cursor.U16(), 0x0302);
  EXPECT_EQ(cursor.U32(), 0x87060504U);
  EXPECT_EQ(cursor.U64(), 0x8807060504030201U);
  EXPECT_EQ(cursor.F32(), -1.5F);
  EXPECT_TRUE(cursor.at_end());
}

TEST(Cursor, RefusesAReadPastTheEndAndStaysWhereItWas) {
  Cursor cursor("abc");
  ASSERT_TRUE(cursor.U8());
  EXPECT_FALSE(cursor.U32());
  EXPECT_FALSE(cursor.U64());
  EXPECT_FALSE(cursor.F32());
  EXPECT_FALSE(cursor.Bytes(3));
  EXPECT_FALSE(cursor.Bytes(UINT64_MAX));
  EXPECT_EQ(cursor.position(), 1);
  EXPECT_EQ(cursor.Bytes(2), "bc");
  EXPECT_FALSE(cursor.U8());
}

TEST(Cursor, CapsAStringsLengthByWhatRemains) {
  const std::string fits("\x02\0\0\0\0\0\0\0hi!", 11);
  Cursor cursor(fits);
  EXPECT_EQ(cursor.LengthPrefixedString(), "hi");
  EXPECT_EQ(cursor.remaining(), 1);

  for (const char* const length : {"\x04", "\xFF"}) {
    const std::string too_long =
        length + std::string(7, length[0] == '\x04' ? '\0' : '\xFF') + "hi!";
    Cursor refused(too_long);
    EXPECT_FALSE(refused.LengthPrefixedString());
    EXPECT_EQ(refused.position(), 0);
  }
}

TEST(Cursor, ReadsVarintsOfUpTo64Bits) {
  EXPECT_EQ(Cursor(std::string_view("\0", 1)).Varint(), 0);
  EXPECT_EQ(Cursor("\x96\x01").Varint(), 150);
  EXPECT_EQ(Cursor("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01").Varint(), UINT64_MAX);
}

TEST(Cursor, RefusesVarintsThatAreCutOffOrTooLong) {
  for (const char* const bytes :
       {"", "\x80", "\xFF\xFF", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02",
        "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"}) {
    Cursor cursor(bytes);
    EXPECT_FALSE(cursor.Varint());
    EXPECT_EQ(cursor.position(), 0);
  }
}

}  // namespace
}  // namespace ng
