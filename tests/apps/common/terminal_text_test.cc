#include "apps/common/terminal_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "ng/utf8.h"

namespace ng {
namespace {

TEST(TerminalText, ShowsWhatSteersATerminal) {
  EXPECT_EQ(TerminalText("a\033[2Jb"), "a^[[2Jb");
  EXPECT_EQ(TerminalText("\033]0;title\a"), "^[]0;title^G");
  EXPECT_EQ(TerminalText("\x7F\r\b"), "^?^M^H");
  EXPECT_EQ(TerminalText("\xC2\x9B"
                         "2J"),
            "<U+009B>2J");
  EXPECT_EQ(TerminalText("\xE2\x80\xAE"
                         "abc\xE2\x81\xA9"),
            "<U+202E>abc<U+2069>");
  EXPECT_EQ(TerminalText("\x9B"
                         "2J\xE2\x80"),
            "<0x9B>2J<0xE2><0x80>");
  EXPECT_EQ(TerminalText(std::string(1, '\0')), "^@");
}

TEST(TerminalText, LeavesTextAsItIs) {
  for (const std::string text :
       {"", "one\n\ttwo", "\xC2\xA0", "\xC3\xA9\xE2\x80\xA9\xE2\x81\xA5", "\xE2\x80\x8D",
        "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x8C\xBE", "\xE4\xBA\x9B", "\xEF\xBF\xBD"}) {
    EXPECT_FALSE(SteersTerminal(text)) << text;
    EXPECT_EQ(TerminalText(text), text);
  }
}

TEST(TerminalText, OfAnyBytesIsTextThatSteersNothing) {
  std::mt19937 random(7);
  const std::string often = "\033\x9B\xC2\xE2\x80\xAE\x81\xA6[2J";
  for (int round = 0; round < 3000; ++round) {
    std::string bytes(random() % 40, ' ');
    for (char& c : bytes) {
      c = random() % 2 == 0 ? often[random() % often.size()] : static_cast<char>(random());
    }
    const std::string text = TerminalText(bytes);
    ASSERT_FALSE(FindInvalidUtf8(text).has_value());
    ASSERT_FALSE(SteersTerminal(text));
    for (const char c : text) {
      const auto byte = static_cast<uint8_t>(c);
      ASSERT_TRUE((byte >= 0x20 && byte != 0x7F) || c == '\n' || c == '\t');
    }
    for (const char* bad : {"\xC2\x80", "\xC2\x9B", "\xC2\x9F", "\xE2\x80\xAA", "\xE2\x80\xAE",
                            "\xE2\x81\xA6", "\xE2\x81\xA9"}) {
      ASSERT_EQ(text.find(bad), text.npos);
    }
    ASSERT_EQ(SteersTerminal(bytes), text != bytes);
  }
}

}  // namespace
}  // namespace ng
