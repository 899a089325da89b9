// Characters, their columns, and lines that are broken at words.
#include "apps/common/screen_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace ng {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Texts(const std::string& text) {
  std::vector<std::string> texts;
  for (const Cluster& cluster : ClustersOf(text)) {
    texts.push_back(text.substr(cluster.begin, cluster.size));
  }
  return texts;
}

TEST(ScreenText, ACharacterIsWhatAReaderSees) {
  EXPECT_THAT(Texts("ae\u0301b"), ElementsAre("a", "e\u0301", "b"));
  const std::string family = "\U0001F468\u200D\U0001F469\u200D\U0001F467";
  EXPECT_THAT(Texts(family + family + "x"), ElementsAre(family, family, "x"));
  EXPECT_THAT(Texts("\U0001F1E9\U0001F1EA\U0001F1EB\U0001F1F7"),
              ElementsAre("\U0001F1E9\U0001F1EA", "\U0001F1EB\U0001F1F7"));
  EXPECT_THAT(Texts("a\nb"), ElementsAre("a", "\n", "b"));
  EXPECT_EQ(Texts("\xFF"
                  "a\xC3")
                .size(),
            3U);
}

TEST(ScreenText, ColumnsAreThoseOfATerminal) {
  EXPECT_EQ(ColumnsOf("abc"), 3U);
  EXPECT_EQ(ColumnsOf("日本\uFF21"), 6U);
  EXPECT_EQ(ColumnsOf("e\u0301\u0302x"), 2U);
  EXPECT_EQ(ColumnsOf("\U0001F600"), 2U);
  EXPECT_EQ(ColumnsOf("\u2764\uFE0F"), 2U);
  EXPECT_EQ(ColumnsOf("\u2764"), 1U);
  EXPECT_EQ(ColumnsOf("\U0001F468\u200D\U0001F469\u200D\U0001F467"), 2U);
  EXPECT_EQ(ColumnsOf("\U0001F1E9\U0001F1EA"), 2U);
  EXPECT_EQ(ColumnsOf("a\tb"), 9U);
  EXPECT_EQ(ColumnsOf("12345678\tb"), 17U);
}

TEST(ScreenText, CaseIsFoldedInEveryAlphabet) {
  EXPECT_EQ(FoldedCase("ÄÖÜ Жx"), FoldedCase("äöü жX"));
}

TEST(WordWrap, BreaksBetweenWordsAndBesideWideCharacters) {
  EXPECT_EQ(WrappedText("the quick brown fox", 10), "the quick\nbrown fox");
  EXPECT_EQ(WrappedText("the quick  brown", 0), "the quick  brown");
  EXPECT_EQ(WrappedText("  indented text here", 12), "  indented\ntext here");
  EXPECT_EQ(WrappedText("ten of ten\nand more", 10), "ten of ten\nand more");
  EXPECT_EQ(WrappedText("日本語日本語", 6), "日本語\n日本語");
  EXPECT_EQ(WrappedText("a verylongwordthatfitsnowhere b", 10),
            "a\nverylongwordthatfitsnowhere\nb");
  EXPECT_EQ(WrappedText("", 10), "");
}

TEST(WordWrap, AStreamIsBrokenAsTheWholeTextIs) {
  std::mt19937 random(1);
  const std::vector<std::string> parts = {"a",  "bc", "def", " ",  " ",       "\n",
                                          "日", ".",  "é",   "  ", "e\u0301", "longerword"};
  for (int round = 0; round < 300; ++round) {
    const size_t columns = 4 + random() % 30;
    std::string text;
    WordWrap wrap;
    std::string shown;
    for (int i = 0; i < 60; ++i) {
      const std::string& part = parts[random() % parts.size()];
      text += part;
      shown += wrap.Push(part, columns);
    }
    shown += wrap.Flush();
    // Nothing but blanks became an end of a line, and no line is too long but for a long word.
    std::string words;
    for (const char c : text) words += c == ' ' || c == '\n' ? "" : std::string(1, c);
    std::string shown_words;
    size_t begin = 0;
    for (size_t i = 0; i <= shown.size(); ++i) {
      if (i < shown.size() && shown[i] != '\n') {
        if (shown[i] != ' ') shown_words += shown[i];
        continue;
      }
      const std::string line = shown.substr(begin, i - begin);
      const bool one_word = line.find(' ', line.find_first_not_of(' ')) == line.npos;
      const bool has_long = line.find("longerword") != line.npos;
      EXPECT_TRUE(ColumnsOf(line) <= columns || one_word || has_long) << columns << ": " << line;
      begin = i + 1;
    }
    EXPECT_EQ(shown_words, words);
  }
}

}  // namespace
}  // namespace ng
