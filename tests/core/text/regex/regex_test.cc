#include "core/text/regex/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/bpe/split_pattern.h"
#include "core/text/pipeline/pre_tokenizer.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Times(const std::string& text, size_t n) {
  std::string all;
  for (size_t i = 0; i < n; ++i) all += text;
  return all;
}

Regex Compiled(std::string_view pattern) {
  absl::StatusOr<Regex> regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  return *std::move(regex);
}

std::vector<std::string> Matches(std::string_view pattern, std::string_view text) {
  std::vector<std::string> matches;
  StepBudget budget(text.size());
  const absl::Status status =
      ForEachMatch(Compiled(pattern), text, budget, [&](Regex::Match match) {
        matches.emplace_back(text.substr(match.begin, match.end - match.begin));
        return true;
      });
  EXPECT_TRUE(status.ok()) << status;
  return matches;
}

TEST(Regex, ReadsAPatternAsTheReference) {
  EXPECT_THAT(Matches(R"(\w+)", "a\u0301\u00b2 \u2460b_"), ElementsAre("a\u0301\u00b2", "b_"));
  EXPECT_THAT(Matches(R"([\w-]+)", "a-b c"), ElementsAre("a-b", "c"));
  EXPECT_THAT(Matches(R"(\W+)", "a -b"), ElementsAre(" -"));
  EXPECT_THAT(Matches(R"(\s)", "\u180e\u3000\u0085"), ElementsAre("\u3000", "\u0085"));
  EXPECT_THAT(Matches(R"(\p{N}++|\d)", "12\u0663"), ElementsAre("12\u0663"));
  EXPECT_THAT(Matches(R"(^b$)", "a\nb\nc"), ElementsAre("b")) << "at each line";
  EXPECT_THAT(Matches(R"(\u0041\x{42}\x43+\v?)", "ABCC"), ElementsAre("ABCC"));
  EXPECT_THAT(Matches("x*", "axb"), ElementsAre("", "x", ""));
}

// As the tokenizers library has each of them.
TEST(Regex, ReadsRepeatsAsTheReference) {
  EXPECT_THAT(Matches("xa{,2}", "xaaaaa"), ElementsAre("xaa"));
  EXPECT_THAT(Matches("ab{,2}?", "abb"), ElementsAre("a"));
  EXPECT_THAT(Matches("ab{2}?c", "acxabbc"), ElementsAre("ac", "abbc"));
  EXPECT_THAT(Matches("ab{2}?b", "abb"), ElementsAre("ab"));
  EXPECT_THAT(Matches("a{2}+b", "aaaaab"), ElementsAre("aaaab"));
  EXPECT_THAT(Matches("a{1,2}{2}", "aaaaaaa"), ElementsAre("aaaa", "aaa"));
  EXPECT_THAT(Matches("(?:ab)*+a|b", "ababa"), ElementsAre("ababa"));
  EXPECT_THAT(Matches("a**x", "xaaax"), ElementsAre("x", "aaax"));
  EXPECT_THAT(Matches("a{ 1}|{+", "a{ 1}{{"), ElementsAre("a{ 1}", "{{"));
  EXPECT_THAT(Matches("}+|a{1|a{", "}}a{1a{"), ElementsAre("}}", "a{1", "a{"));
}

TEST(Regex, RefusesWhatItReadsInAnotherWay) {
  for (const std::string pattern :
       {"[a&&b]", "[a[b]]", R"([\W])", R"(\h)", R"((a)\1)", "a(?i)b", "(?m:a)", "(?<n>a)", "(",
        "a)", "*", "[]a]", "[a", "\\", R"(\p{Nope})", "a{70000}"}) {
    const absl::Status status = Regex::Compile(pattern).status();
    EXPECT_EQ(ExitCode(status), 3) << pattern << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("pattern"));
  }
  EXPECT_EQ(ExitCode(Regex::Compile(std::string(20000, 'a')).status()), 3);
}

TEST(Regex, TakesAMatchThatIsTooLongForTheStackOfCompiledCode) {
  const Regex regex = Compiled(R"((?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+)");
  const std::string text(size_t{1} << 20, 'a');
  SearchSteps steps = {100'000'000};
  const auto match = regex.Find(text, 0, steps);
  ASSERT_TRUE(match.ok()) << match.status();
  EXPECT_EQ((*match)->end, text.size());
}

TEST(Regex, TakesNoStepsForAShortSearch) {
  SearchSteps steps = {0};
  const std::string text = Times("x", 5000) + "aab" + Times("\u4f60", 5000);
  const auto match = Compiled("a+(?=b)").Find(text, 0, steps);
  ASSERT_TRUE(match.ok()) << match.status();
  EXPECT_EQ((*match)->begin, 5000);
  EXPECT_EQ((*match)->end, 5002);
  EXPECT_EQ(steps.left, 0);
}

// The scanners are other code for the same patterns.
TEST(Regex, FindsMatchesOfAnyLengthAsTheScannersDo) {
  constexpr const char* kParts[] = {"a", "\u4f60", " ", "\n", "7", "!", "'s", "\u00a0"};
  std::mt19937 random(7);
  for (int i = 0; i < 40; ++i) {
    std::string text;
    for (int run = 0; run < 12; ++run) {
      const size_t length = random() % 4 == 0 ? random() % 1000 : random() % 8;
      text += Times(kParts[random() % std::size(kParts)], length);
    }
    if (text.empty()) continue;
    for (const KnownPattern& known : kKnownPatterns) {
      const auto split = [&](PreTokenizerStep step) {
        std::vector<std::string> pieces;
        StepBudget budget(text.size());
        const absl::Status status =
            SplitText(text, true, std::span(&step, 1), budget, [&](std::string_view piece) {
              pieces.emplace_back(piece);
              return true;
            });
        EXPECT_TRUE(status.ok()) << status;
        return pieces;
      };
      EXPECT_EQ(split(SplitAt{Compiled(known.regex)}), split(known.pattern)) << known.regex;
    }
  }
}

// Repeats longer than what is looked at without a count, of every kind.
TEST(Regex, RepeatsAsOftenAsThePatternAllows) {
  const std::string many(1000, 'a');
  const auto length = [&](std::string_view pattern) {
    SearchSteps steps = {1'000'000};
    const auto match = Compiled(pattern).Find("b" + many + "b", 1, steps);
    return match.ok() && match->has_value() ? static_cast<int64_t>((*match)->end - 1) : -1;
  };
  EXPECT_EQ(length("a*"), 1000);
  EXPECT_EQ(length("a+b"), 1001);
  EXPECT_EQ(length("a*+a|a{999}"), 999) << "none given back";
  EXPECT_EQ(length("a+?b"), 1001);
  EXPECT_EQ(length("a*?(?=a{300}b)"), 700);
  EXPECT_EQ(length("a*(?=a{300}b)"), 700);
  EXPECT_EQ(length("a{700,}?"), 700);
  EXPECT_EQ(length("a{1001,}|a{999}"), 999);
  EXPECT_EQ(length("(?:aa)*+(?<=baa(?=a))|a{500}"), 500);
  EXPECT_EQ(length("(?:aa)++b|a"), 1001);
  EXPECT_EQ(length("[^b]{600,800}"), 800);
  EXPECT_EQ(length("(?<=b)(?i:A)+$|a{3}"), 3);
  EXPECT_EQ(length("(a|aa)+(?!a)"), 1000);
  EXPECT_EQ(length("\\b.*\\b"), 1001) << "b's are letters";
}

TEST(Regex, GivesUpOnASearchWithoutEnd) {
  SearchSteps steps = {1'000'000};
  const absl::Status status =
      Compiled("(a+)+$").Find(std::string(64, 'a') + "b", 0, steps).status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the tokenizer's pattern \"(a+)+$\" takes more than 1000000 steps to split "
                        "the text"));
}

// Each looks at all that follows, from every place.
TEST(Regex, GivesUpOnSearchesThatTogetherTakeTooLong) {
  const std::string text(60000, 'a');
  for (const std::string pattern :
       {"(?=a*c)a|b", "(?=a*c)a|a", "(?=a*?c)a|b", "(?=a*+c)a|b", "(?=a{5,}c)a|b",
        "(?=(?:a)*+c)a|b", "(?=(?:ab?)*+c)a|a", "(?=(?>a)*c)a|b", "(?=a{0,60000}c)a|b",
        "(?=(?:a{1000}){50}c)a|a", "(?!a*b$)a", "a+c|a", "a+$\\n", "(?=[^x]*\\n)a|b",
        "(?=(?:a|b)*?c)a|b"}) {
    const Regex regex = Compiled(pattern);
    SearchSteps steps = {1'000'000};
    absl::StatusOr<std::optional<Regex::Match>> match;
    for (size_t from = 0; from < text.size(); from = (*match)->end) {
      match = regex.Find(text, from, steps);
      if (!match.ok() || !match->has_value()) break;
    }
    EXPECT_EQ(ExitCode(match.status()), 2) << pattern;
    EXPECT_THAT(std::string(match.status().message()), HasSubstr("steps to split the text"))
        << pattern;
  }
}

}  // namespace
}  // namespace ng
