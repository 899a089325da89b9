#include "core/text/added_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
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
  // A shorter one that needs no leave is found in its place.
  const AddedTokens nested({{.id = 1, .text = "<"},
                            {.id = 2, .text = "<a", .special = true},
                            {.id = 3, .text = "<a>"},
                            {.id = 4, .text = "<a><"}});
  EXPECT_EQ(SplitWhere(nested, "<a><a", "....."), "#4|a");
  EXPECT_EQ(SplitWhere(nested, "<a<ab", "tt..."), "#2|#1|ab");
  // The spaces that it takes may be anybody's.
  EXPECT_EQ(SplitWhere(tokens, "y <c> y", "..ttt.."), "y|#4|y");
}

TEST(AddedTokens, ThatAreMarksAreFoundOnlyWhereTheyMayBe) {
  const AddedTokens tokens(
      {{.id = 1, .text = "<a>"}, {.id = 2, .text = "<b>"}, {.id = 5, .text = "<"}});
  const std::string mask = {0, 0, 0, 0, 0, 0, 1, 1, 1};
  const std::vector<int32_t> marks = {1};
  const std::vector<TextFragment> found = tokens.Split("<a><b><a>", true, mask, marks);
  std::vector<int32_t> ids;
  for (const TextFragment& fragment : found) ids.push_back(fragment.id);
  EXPECT_EQ(ids, (std::vector<int32_t>{5, -1, 2, 1}));
  EXPECT_EQ(tokens.Split("<a>", true, {}, marks).front().id, 1) << "without a mask";
}

// The plain way: at each place each token is tried.
std::string SplitPlainly(const std::vector<AddedToken>& tokens, std::string_view text,
                         std::string_view mask, const std::vector<int32_t>& marks) {
  std::string joined;
  const auto add = [&](const std::string& part) { joined += joined.empty() ? part : "|" + part; };
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* best = nullptr;
    for (const AddedToken& token : tokens) {
      const bool guarded = token.special || std::ranges::count(marks, token.id) != 0;
      const bool allowed =
          !guarded || mask.substr(at, token.text.size()).find('.') == std::string_view::npos;
      if (!text.substr(at).starts_with(token.text) || !allowed) continue;
      if (best == nullptr || token.text.size() > best->text.size()) best = &token;
    }
    if (best == nullptr) {
      ++at;
      continue;
    }
    if (done < at) add(std::string(text.substr(done, at - done)));
    add(absl::StrCat("#", best->id));
    at = done = at + best->text.size();
  }
  if (done < text.size()) add(std::string(text.substr(done)));
  return joined;
}

TEST(AddedTokens, AreThoseThatThePlainWayFinds) {
  std::mt19937 random(3);
  const auto word = [&](size_t most) {
    std::string made;
    for (size_t n = 1 + random() % most; n > 0; --n) made += static_cast<char>('a' + random() % 2);
    return made;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<AddedToken> tokens;
    std::vector<int32_t> marks;
    for (size_t n = 1 + random() % 8; n > 0; --n) {
      AddedToken token = {.id = static_cast<int32_t>(n), .text = word(6)};
      const bool again = std::ranges::count(tokens, token.text, &AddedToken::text) != 0;
      token.special = random() % 3 == 0;
      if (!again) tokens.push_back(token);
    }
    for (int32_t id = 1; id < 9; ++id) {
      if (random() % 3 == 0) marks.push_back(id);
    }
    const std::string text = word(40);
    std::string mask;
    std::string special_at;
    bool may = false;
    for (size_t i = 0; i < text.size(); ++i) {
      may = random() % 5 == 0 ? !may : may;
      mask += may ? 't' : '.';
      special_at += static_cast<char>(may);
    }
    std::string joined;
    for (const TextFragment& part : AddedTokens(tokens).Split(text, true, special_at, marks)) {
      if (!joined.empty()) joined += '|';
      joined += part.id < 0 ? std::string(part.text) : absl::StrCat("#", part.id);
    }
    ASSERT_EQ(joined, SplitPlainly(tokens, text, mask, marks)) << text << " " << mask;
    const std::string all(text.size(), 't');
    ASSERT_EQ(Split(AddedTokens(tokens), text), SplitPlainly(tokens, text, all, {})) << text;
  }
}

}  // namespace
}  // namespace ng
