#include "core/text/unicode.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <chrono>
#include <string>
#include <vector>

namespace ng {
namespace {

TEST(NormalizeNfc, ComposesWhatHasAComposite) {
  EXPECT_EQ(NormalizeNfc("plain"), "plain");
  EXPECT_EQ(NormalizeNfc("cafe\u0301"), "caf\u00E9");
  EXPECT_EQ(NormalizeNfc("\u212B"), "\u00C5") << "a singleton";
  EXPECT_EQ(NormalizeNfc("\u1100\u1161\u11A8"), "\uAC01") << "Hangul";
  EXPECT_EQ(NormalizeNfc("\uAC00\u11A8"), "\uAC01");
  EXPECT_EQ(NormalizeNfc("e\u0301\u0302"), "\u00E9\u0302") << "the second mark has no place";
  EXPECT_EQ(NormalizeNfc("a\u0323\u0302"), "\u1EAD") << "one after the other";
  EXPECT_EQ(NormalizeNfc("\u0301e"), "\u0301e") << "a mark without a letter";
}

TEST(NormalizeNfc, OrdersMarksByTheirClasses) {
  EXPECT_EQ(NormalizeNfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(NormalizeNfc("e\u0302\u0323"), "\u1EC7");
  EXPECT_EQ(NormalizeNfc("a\u0301\u0301"), "\u00E1\u0301") << "equal classes keep their order";
}

TEST(NormalizeNfc, LeavesApartWhatUnicodeExcludesFromComposition) {
  EXPECT_EQ(NormalizeNfc("\u0958"), "\u0915\u093C");
  EXPECT_EQ(NormalizeNfc("\u0344"), "\u0308\u0301");
  EXPECT_EQ(NormalizeNfc("\U0001D15E"), "\U0001D157\U0001D165");
  EXPECT_EQ(NormalizeNfc("\uFB01"), "\uFB01") << "compatibility stays";
}

TEST(NormalizeNfc, OfItsOwnResultChangesNothing) {
  const std::vector<std::string> parts = {"e",      "q",      "\u0301", "\u0323", "\u0307",
                                          "\u1100", "\u1161", "\u11A8", "\uAC00", "\u00E9",
                                          "\u0344", "\u0958", " ",      "\u1E9B"};
  EXPECT_TRUE(rc::check("of any mixture of letters and marks", [&] {
    std::string text;
    for (const auto& part :
         *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(parts))) {
      text += part;
    }
    const std::string once = NormalizeNfc(text);
    RC_ASSERT(NormalizeNfc(once) == once);
  }));
}

// ICU's own normaliser needs minutes for it.
TEST(NormalizeNfc, TakesAMegabyteOfMarksOutOfOrderInSeconds) {
  std::string text = "a";
  while (text.size() < 1 << 20) text += "\u0301\u0323";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(NormalizeNfc(text).starts_with("\u1EA1\u0323\u0323"));
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

}  // namespace
}  // namespace ng
