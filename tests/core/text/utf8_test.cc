#include "ng/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

constexpr std::string_view kFffd = "\xEF\xBF\xBD";

std::string Fffd(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += kFffd;
  return text;
}

struct Case {
  const char* name;
  std::string bytes;
  std::string replaced;
};

std::vector<Case> InvalidCases() {
  return {
      {"a lone continuation byte", "\x80", Fffd(1)},
      {"bytes that are never UTF-8", "\xFE\xFF", Fffd(2)},
      {"an overlong slash in two bytes", "\xC0\xAF", Fffd(2)},
      {"an overlong slash in three bytes", "\xE0\x80\xAF", Fffd(3)},
      {"an overlong slash in four bytes", "\xF0\x80\x80\xAF", Fffd(4)},
      {"a surrogate", "\xED\xA0\x80", Fffd(3)},
      {"a surrogate pair", "\xED\xA0\xBD\xED\xB8\x80", Fffd(6)},
      {"above U+10FFFF", "\xF4\x90\x80\x80", Fffd(4)},
      {"a lead byte above F4", "\xF5\x80\x80\x80", Fffd(4)},
      {"two bytes of three, then a letter", "\xE4\xB8x", absl::StrCat(Fffd(1), "x")},
      {"three bytes of four, then a letter", "\xF0\x9F\x98x", absl::StrCat(Fffd(1), "x")},
      {"two bytes of three, then a character", "\xE4\xB8\xE4\xB8\xAD",
       absl::StrCat(Fffd(1), "\xE4\xB8\xAD")},
      {"the text ends inside a character", "a\xF0\x9F\x98", absl::StrCat("a", Fffd(1))},
      {"the standard's example of maximal subparts",
       "a\xF1\x80\x80\xE1\x80\xC2"
       "b\x80"
       "c\x80\xBF"
       "d",
       absl::StrCat("a", Fffd(3), "b", Fffd(1), "c", Fffd(2), "d")},
  };
}

TEST(Utf8, ReplacesEveryMaximalInvalidSubpart) {
  for (const Case& c : InvalidCases()) EXPECT_EQ(ReplaceInvalidUtf8(c.bytes), c.replaced) << c.name;
}

TEST(Utf8, KeepsValidTextAsItIs) {
  const std::string_view texts[] = {"",
                                    "plain",
                                    std::string_view("a\0b", 3),
                                    "\x7F",
                                    "\xC2\x80",
                                    "\xDF\xBF",
                                    "\xE0\xA0\x80",
                                    "\xED\x9F\xBF",
                                    "\xEE\x80\x80",
                                    "\xEF\xBF\xBF",
                                    "\xF0\x90\x80\x80",
                                    "\xF4\x8F\xBF\xBF",
                                    kFffd};
  for (const std::string_view text : texts) {
    EXPECT_EQ(ReplaceInvalidUtf8(text), text);
    EXPECT_FALSE(FindInvalidUtf8(text));
  }
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FindInvalidUtf8("abc\xFF"), 3);
  EXPECT_EQ(FindInvalidUtf8("\xC3\xA9\xE4\xB8"), 2);
  for (const Case& c : InvalidCases()) EXPECT_TRUE(FindInvalidUtf8(c.bytes)) << c.name;
}

// Family of four (ZWJ sequence), a flag, a skin tone, a combining mark.
constexpr std::string_view kEmoji =
    "x\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7\xE2\x80\x8D"
    "\xF0\x9F\x91\xA6 \xF0\x9F\x87\xA9\xF0\x9F\x87\xAA\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD"
    "e\xCC\x81";

TEST(Utf8Stream, IsOnlyCutBetweenCharactersAtEverySplitPoint) {
  for (size_t first = 0; first <= kEmoji.size(); ++first) {
    for (size_t second = first; second <= kEmoji.size(); ++second) {
      Utf8Stream stream;
      const std::string pieces[] = {stream.Push(kEmoji.substr(0, first)),
                                    stream.Push(kEmoji.substr(first, second - first)),
                                    stream.Push(kEmoji.substr(second)), stream.Finish()};
      for (const std::string& piece : pieces) EXPECT_FALSE(FindInvalidUtf8(piece));
      EXPECT_EQ(pieces[0] + pieces[1] + pieces[2], kEmoji);
      EXPECT_EQ(pieces[3], "");
    }
  }
}

TEST(Utf8Stream, GivesInvalidBytesAlikeHoweverTheyAreSplit) {
  for (const Case& c : InvalidCases()) {
    for (size_t split = 0; split <= c.bytes.size(); ++split) {
      Utf8Stream stream;
      std::string text = stream.Push(std::string_view(c.bytes).substr(0, split));
      text += stream.Push(std::string_view(c.bytes).substr(split));
      EXPECT_EQ(text + stream.Finish(), c.replaced) << c.name << " split at " << split;
    }
  }
}

TEST(Utf8Prefix, EndsBetweenCharacters) {
  EXPECT_EQ(Utf8Prefix("abc", 3), "abc");
  EXPECT_EQ(Utf8Prefix("abc", 2), "ab");
  const std::string_view smile = "ab\xF0\x9F\x98\x80";
  for (size_t limit = 2; limit < 6; ++limit) EXPECT_EQ(Utf8Prefix(smile, limit), "ab") << limit;
  EXPECT_EQ(Utf8Prefix(smile, 6), smile);
  EXPECT_EQ(Utf8Prefix("\xD1\x84\xD1\x84", 3), "\xD1\x84");
  EXPECT_EQ(Utf8Prefix("\xD1\x84", 1), "");
}

TEST(Utf8Prefix, OfBytesThatAreNoTextIsAsLongAsItMay) {
  const std::string bytes(9, '\x80');
  EXPECT_EQ(Utf8Prefix(bytes, 6), std::string_view(bytes).substr(0, 6));
}

TEST(Utf8Stream, GivesACharacterWithItsLastByte) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("\xF0"), "");
  EXPECT_EQ(stream.Push("\x9F\x98"), "");
  EXPECT_EQ(stream.Push("\x80!"), "\xF0\x9F\x98\x80!");
}

TEST(Utf8Stream, BeginsAnewAfterFinish) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("\xE4\xB8"), "");
  EXPECT_EQ(stream.Finish(), kFffd);
  EXPECT_EQ(stream.Finish(), "");
  EXPECT_EQ(stream.Push("\xC3\xA9"), "\xC3\xA9");
}

}  // namespace
}  // namespace ng
