#include "core/text/unicode.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/text/newer_characters.h"
#include "ng/utf8.h"

namespace ng {
namespace {

TEST(NormalFormC, ComposesWhatHasAComposite) {
  EXPECT_EQ(Normalize("plain", NormalForm::kC), "plain");
  EXPECT_EQ(Normalize("cafe\u0301", NormalForm::kC), "caf\u00E9");
  EXPECT_EQ(Normalize("\u212B", NormalForm::kC), "\u00C5") << "a singleton";
  EXPECT_EQ(Normalize("\u1100\u1161\u11A8", NormalForm::kC), "\uAC01") << "Hangul";
  EXPECT_EQ(Normalize("\uAC00\u11A8", NormalForm::kC), "\uAC01");
  EXPECT_EQ(Normalize("e\u0301\u0302", NormalForm::kC), "\u00E9\u0302")
      << "the second mark has no place";
  EXPECT_EQ(Normalize("a\u0323\u0302", NormalForm::kC), "\u1EAD") << "one after the other";
  EXPECT_EQ(Normalize("\u0301e", NormalForm::kC), "\u0301e") << "a mark without a letter";
}

TEST(NormalFormC, OrdersMarksByTheirClasses) {
  EXPECT_EQ(Normalize("q\u0307\u0323", NormalForm::kC), "q\u0323\u0307");
  EXPECT_EQ(Normalize("e\u0302\u0323", NormalForm::kC), "\u1EC7");
  EXPECT_EQ(Normalize("a\u0301\u0301", NormalForm::kC), "\u00E1\u0301")
      << "equal classes keep their order";
}

TEST(NormalFormC, LeavesApartWhatUnicodeExcludesFromComposition) {
  EXPECT_EQ(Normalize("\u0958", NormalForm::kC), "\u0915\u093C");
  EXPECT_EQ(Normalize("\u0344", NormalForm::kC), "\u0308\u0301");
  EXPECT_EQ(Normalize("\U0001D15E", NormalForm::kC), "\U0001D157\U0001D165");
  EXPECT_EQ(Normalize("\uFB01", NormalForm::kC), "\uFB01") << "compatibility stays";
}

TEST(NormalFormC, OfItsOwnResultChangesNothing) {
  const std::vector<std::string> parts = {"e",      "q",      "\u0301", "\u0323", "\u0307",
                                          "\u1100", "\u1161", "\u11A8", "\uAC00", "\u00E9",
                                          "\u0344", "\u0958", " ",      "\u1E9B"};
  EXPECT_TRUE(rc::check("of any mixture of letters and marks", [&] {
    std::string text;
    for (const auto& part :
         *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(parts))) {
      text += part;
    }
    const std::string once = Normalize(text, NormalForm::kC);
    RC_ASSERT(Normalize(once, NormalForm::kC) == once);
  }));
}

// ICU's own normaliser needs minutes for it.
TEST(NormalFormC, TakesAMegabyteOfMarksOutOfOrderInSeconds) {
  std::string text = "a";
  while (text.size() < 1 << 20) text += "\u0301\u0323";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(Normalize(text, NormalForm::kC).starts_with("\u1EA1\u0323\u0323"));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 20);
}

TEST(CodePoints, AreReadFromBothEnds) {
  for (const char32_t value : {U'a', U'\u007F', U'\u0080', U'\u07FF', U'\u0800', U'\uFFFF',
                               U'\U00010000', U'\U0010FFFF'}) {
    std::string text;
    AppendUtf8(value, &text);
    EXPECT_EQ(FirstCodePoint(text + "b").value, value);
    EXPECT_EQ(FirstCodePoint(text + "b").length, text.size());
    EXPECT_EQ(LastCodePoint("\u4E2D" + text).value, value);
    EXPECT_EQ(LastCodePoint("\u4E2D" + text).length, text.size());
  }
}

TEST(Classes, AreThoseOfThePatterns) {
  EXPECT_TRUE(IsLetter(U'\u4E2D') && IsLetter(U'\u01C5') && !IsLetter(U'\u0301'));
  EXPECT_TRUE(IsNumber(U'\u00BD') && IsNumber(U'\u2167') && IsNumber(U'\u0663') && !IsNumber(U'a'));
  EXPECT_TRUE(IsSpace(U'\u00A0') && IsSpace(U'\u3000') && IsSpace(U'\u0085') && IsSpace(U'\v'));
  EXPECT_TRUE(!IsSpace(U'\u200B') && !IsSpace(U'\u001C') && !IsSpace(U'\uFEFF'));
  EXPECT_TRUE(IsWord(U'_') && IsWord(U'7') && IsWord(U'\u0301') && IsWord(U'\u200D'));
  EXPECT_TRUE(!IsWord(U'-') && !IsWord(U' ') && !IsWord(U'\u00BD'));
  EXPECT_TRUE(IsPunctuation(U'!') && !IsPunctuation(U'$') && !IsPunctuation(U'a'));
}

// Characters of Unicode 15 and 16, which the libraries' own tables may not have.
TEST(NewerCharacters, AreOfTheirClass) {
  for (const char32_t letter : U"\U00031350\U0002EBF0\U0001E4D0\U00011F04\uA7CB\U00010D50") {
    if (letter == 0) continue;  // the end of the literal
    EXPECT_TRUE(IsLetter(letter) && IsWord(letter)) << static_cast<uint32_t>(letter);
  }
  EXPECT_TRUE(IsNumber(0x10D40) && IsDecimalNumber(0x10D40));
  EXPECT_TRUE(IsPunctuation(0x11F43));
  EXPECT_FALSE(IsLetter(0x1FAE8) || IsNumber(0x1FAE8) || IsPunctuation(0x1FAE8));
  EXPECT_FALSE(IsLetter(0x323B0)) << "has no meaning yet";
  std::string lower;
  AppendLower(0x10D50, &lower);
  EXPECT_EQ(lower, "\U00010D70");
}

TEST(NewerCharacters, HaveTwinsOfTheSameLength) {
  int n_newer = 0;
  for (char32_t value = 0x80; value < 0x110000; ++value) {
    const char32_t twin = OlderTwin(value);
    if (twin == value) continue;
    ++n_newer;
    std::string text;
    std::string bytes;
    AppendUtf8(value, &text);
    AppendUtf8(twin, &bytes);
    ASSERT_EQ(WithOlderTwins("a" + text + "b"), "a" + bytes + "b");
    ASSERT_EQ(text.size(), bytes.size());
    ASSERT_EQ(OlderTwin(twin), twin);
  }
  EXPECT_EQ(n_newer, 10301);
  EXPECT_EQ(WithOlderTwins("a\u00e9\u4f60\U0001F600"), std::nullopt);
}

}  // namespace
}  // namespace ng
