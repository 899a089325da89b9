#include "core/text/added_tokens.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

// "text|#id|text"
std::string Split(const AddedTokens& tokens, std::string_view text, bool parse_special = true) {
  std::string joined;
  for (const TextFragment& fragment : tokens.Split(text, parse_special)) {
    if (!joined.empty()) joined += '|';
    if (fragment.id < 0) joined.append(fragment.text);
    if (fragment.id >= 0) absl::StrAppend(&joined, "#", fragment.id);
  }
  return joined;
}

TEST(AddedTokens, AreFoundWhereverTheyStand) {
  const AddedTokens tokens({{.id = 1, .text = "<a>"}, {.id = 2, .text = "\u4E2D"}});
  EXPECT_EQ(Split(tokens, "x<a>y\u4E2D<a>"), "x|#1|y|#2|#1");
  EXPECT_EQ(Split(tokens, "<a"), "<a");
  EXPECT_EQ(Split(tokens, ""), "");
  EXPECT_EQ(Split(AddedTokens(), "x"), "x");
}

TEST(AddedTokens, OfOneBeginningTheLongestIsTaken) {
  const AddedTokens tokens(
      {{.id = 1, .text = "<"}, {.id = 2, .text = "<ab"}, {.id = 3, .text = "ab>"}});
  EXPECT_EQ(Split(tokens, "<ab>"), "#2|>");
  EXPECT_EQ(Split(tokens, "<a>"), "#1|a>");
  EXPECT_EQ(Split(tokens, "ab>"), "#3");
}

TEST(AddedTokens, ThatAreSpecialStayTextUnlessTheyAreParsed) {
  const AddedTokens tokens(
      {{.id = 1, .text = "<s>", .special = true}, {.id = 2, .text = "s"}, {.id = 3, .text = "t"}});
  EXPECT_EQ(Split(tokens, "<s>st", true), "#1|#2|#3");
  EXPECT_EQ(Split(tokens, "<s>st", false), "<s>|#2|#3") << "nothing is found within";
}

TEST(AddedTokens, ThatAreSingleWordsStandAlone) {
  const AddedTokens tokens({{.id = 1, .text = "the", .single_word = true}});
  EXPECT_EQ(Split(tokens, "the the, then _the \u00E9the the"), "#1| |#1|, then _the \u00E9the |#1");
}

TEST(AddedTokens, StripTheSpacesAroundThem) {
  const AddedTokens left({{.id = 1, .text = "<l>", .lstrip = true}});
  const AddedTokens right({{.id = 1, .text = "<r>", .rstrip = true}});
  EXPECT_EQ(Split(left, "a \n\u3000<l> b"), "a|#1| b");
  EXPECT_EQ(Split(left, " <l> <l>"), "#1|#1");
  EXPECT_EQ(Split(right, "a <r> \n\u3000b"), "a |#1|b");
  EXPECT_EQ(Split(right, "<r> "), "#1");
}

// '.' marks the bytes where no special token may be.
std::string SplitWhere(const AddedTokens& tokens, std::string_view text, std::string_view mask) {
  std::string special_at;
  for (const char c : mask) special_at += static_cast<char>(c != '.');
  EXPECT_EQ(text.size(), mask.size());
  std::string joined;
  for (const TextFragment& fragment : tokens.Split(text, true, special_at)) {
    if (!joined.empty()) joined += '|';
    if (fragment.id < 0) joined.append(fragment.text);
    if (fragment.id >= 0) absl::StrAppend(&joined, "#", fragment.id);
  }
  return joined;
}

TEST(AddedTokens, ThatAreSpecialAreFoundOnlyWhereTheyMayBe) {
  const AddedTokens tokens(
      {{.id = 1, .text = "<a>", .special = true},
       {.id = 2, .text = "<b>"},
       {.id = 3, .text = "x<a>", .special = true},
       {.id = 4, .text = "<c>", .special = true, .lstrip = true, .rstrip = true}});
  EXPECT_EQ(SplitWhere(tokens, "<a><a>", "...ttt"), "<a>|#1");
  for (const char* const mask : {".tt", "t.t", "tt."}) {
    EXPECT_EQ(SplitWhere(tokens, "<a>", mask), "<a>") << mask;
  }
  EXPECT_EQ(SplitWhere(tokens, "<b>", "..."), "#2");
  // A longer token that may not be there hides no shorter one.
  EXPECT_EQ(SplitWhere(tokens, "x<a>", ".ttt"), "x|#1");
  EXPECT_EQ(SplitWhere(tokens, "x<a>", "tttt"), "#3");
  // The spaces that it takes may be anybody's.
  EXPECT_EQ(SplitWhere(tokens, "y <c> y", "..ttt.."), "y|#4|y");
}

}  // namespace
}  // namespace ng
