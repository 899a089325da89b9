#include "core/text/bpe/split_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <chrono>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/pipeline/pre_tokenizer.h"
#include "core/text/regex/regex.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using Pieces = std::vector<std::string_view>;

Pieces SplitBy(std::string_view text, std::span<const PreTokenizerStep> steps) {
  Pieces pieces;
  StepBudget budget(text.size());
  EXPECT_TRUE(SplitText(text, true, steps, budget, [&](std::string_view piece) {
                pieces.push_back(piece);
                return true;
              }).ok());
  return pieces;
}
Pieces Split(std::string_view text, SplitPattern pattern) {
  return SplitBy(text, std::array<PreTokenizerStep, 1>{pattern});
}
Pieces Gpt2(std::string_view text) { return Split(text, SplitPattern::kGpt2); }
Pieces Llama3(std::string_view text) { return Split(text, SplitPattern::kLlama3); }
Pieces Qwen2(std::string_view text) { return Split(text, SplitPattern::kQwen2); }

TEST(SplitPattern, OfGpt2KeepsASpaceWithTheWordAfterIt) {
  EXPECT_THAT(Gpt2("Hello world 123!? x1"),
              ElementsAre("Hello", " world", " 123", "!?", " x", "1"));
  EXPECT_THAT(Gpt2("a\tb"), ElementsAre("a", "\t", "b")) << "only a blank joins";
  EXPECT_THAT(Gpt2("a\n!"), ElementsAre("a", "\n", "!"));
}

TEST(SplitPattern, LeavesTheLastSpaceOfARunToWhatFollows) {
  EXPECT_THAT(Gpt2("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(Gpt2("a \t\nb"), ElementsAre("a", " \t", "\n", "b"));
  EXPECT_THAT(Gpt2("a   "), ElementsAre("a", "   ")) << "nothing follows";
  EXPECT_THAT(Gpt2("\u3000\u3000x"), ElementsAre("\u3000", "\u3000", "x")) << "by characters";
}

TEST(SplitPattern, TakesContractionsApart) {
  EXPECT_THAT(Gpt2("I'm we'll 'tis X'S"),
              ElementsAre("I", "'m", " we", "'ll", " '", "tis", " X", "'", "S"));
  EXPECT_THAT(Llama3("I'M we'Ll it'\u017F 'tis"),
              ElementsAre("I", "'M", " we", "'Ll", " it", "'\u017F", " '", "tis"));
  EXPECT_THAT(Gpt2("'"), ElementsAre("'"));
  EXPECT_THAT(Gpt2("'r"), ElementsAre("'", "r"));
  EXPECT_THAT(Llama3("'r"), ElementsAre("'r")) << "any character joins a word";
}

TEST(SplitPattern, OfLlama3JoinsAnyOneCharacterToAWord) {
  EXPECT_THAT(Llama3("(a)\tb\u00A0c\nd1e"),
              ElementsAre("(a", ")", "\tb", "\u00A0c", "\n", "d", "1", "e"));
}

TEST(SplitPattern, CountsDigitsByThreesOrOneByOne) {
  EXPECT_THAT(Llama3("12345 6"), ElementsAre("123", "45", " ", "6"));
  EXPECT_THAT(Qwen2("123 6"), ElementsAre("1", "2", "3", " ", "6"));
  EXPECT_THAT(Llama3("\u0661\u0662\u0663\u0664"), ElementsAre("\u0661\u0662\u0663", "\u0664"));
}

TEST(SplitPattern, OfLlama3EndsPunctuationAndSpacesWithTheLine) {
  EXPECT_THAT(Llama3("a);\r\n\nb"), ElementsAre("a", ");\r\n\n", "b"));
  EXPECT_THAT(Llama3("a  \n \n  b"), ElementsAre("a", "  \n \n", " ", " b"));
  EXPECT_THAT(Llama3(" !\n"), ElementsAre(" !\n"));
  EXPECT_THAT(Llama3("  \n  "), ElementsAre("  \n", "  "));
}

TEST(SplitPattern, StepsApplyOneAfterTheOther) {
  const std::array<PreTokenizerStep, 2> steps = {SplitPattern::kEachNumber, SplitPattern::kGpt2};
  EXPECT_THAT(SplitBy("a 12", steps), ElementsAre("a", " ", "1", "2"));
  EXPECT_THAT(Split("12345a6789", SplitPattern::kThreeDigits),
              ElementsAre("123", "45a", "678", "9"));
  EXPECT_THAT(Split("a\u00BD12 b", SplitPattern::kNumbers), ElementsAre("a", "\u00BD12", " b"));
  EXPECT_THAT(Split("a+$b\u3002c#", SplitPattern::kPunctuation),
              ElementsAre("a", "+$", "b", "\u3002", "c", "#"));
  EXPECT_THAT(SplitBy("a 12", {}), ElementsAre("a 12"));
  EXPECT_THAT(SplitBy("", steps), ElementsAre());
  int n_taken = 0;
  StepBudget budget(7);
  EXPECT_TRUE(SplitText("1 2 3 4", true, steps, budget, [&](std::string_view) {
                return ++n_taken < 3;
              }).ok());
  EXPECT_EQ(n_taken, 3) << "no more than is wanted";
}

TEST(SplitPattern, LosesNothing) {
  const std::vector<std::string> parts = {"a",  "B",  "'s", "'", " ",      "  ",     "\n",
                                          "\r", "\t", "12", "!", "\u3000", "\u00BD", "\u4E2D"};
  for (const SplitPattern step :
       {SplitPattern::kGpt2, SplitPattern::kLlama3, SplitPattern::kQwen2, SplitPattern::kEachNumber,
        SplitPattern::kNumbers, SplitPattern::kThreeDigits, SplitPattern::kPunctuation,
        SplitPattern::kJais2}) {
    EXPECT_TRUE(rc::check("the pieces are the text", [&] {
      std::string text;
      for (const auto& part :
           *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(parts))) {
        text += part;
      }
      std::string joined;
      for (const std::string_view piece : Split(text, step)) {
        RC_ASSERT(!piece.empty());
        joined += piece;
      }
      RC_ASSERT(joined == text);
    }));
  }
}

TEST(SplitPattern, CutsAsItsRegularExpression) {
  const std::vector<std::string> parts = {"a",
                                          "B",
                                          "'s",
                                          "'",
                                          " ",
                                          "  ",
                                          "\n",
                                          "\r",
                                          "\t",
                                          "12",
                                          "!",
                                          "\u3000",
                                          "\u00BD",
                                          "\u4E2D",
                                          std::string(7, ' '),
                                          std::string(90, ' ')};
  std::mt19937 random(6);
  for (const KnownPattern& known : kKnownPatterns) {
    const std::array<PreTokenizerStep, 1> by_regex = {SplitAt{Regex::Compile(known.regex).value()}};
    for (int i = 0; i < 500; ++i) {
      std::string text;
      for (size_t n = 1 + random() % 30; n > 0; --n) {
        const std::string& part = parts[random() % parts.size()];
        for (size_t m = random() % 20 == 0 ? 9 : 1; m > 0; --m) text += part;
      }
      ASSERT_EQ(Split(text, known.pattern), SplitBy(text, by_regex)) << known.regex << text;
    }
  }
}

// Each piece would look through all spaces that are left.
TEST(SplitPattern, OfJais2CutsFourMegabytesOfSpacesInOnePass) {
  const std::string text(4 << 20, ' ');
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Split(text, SplitPattern::kJais2).size(), text.size() / 512);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 20);  // a fraction of a second; otherwise half a minute
}

TEST(SplitPattern, IsKnownByItsExactText) {
  const std::string gpt2 =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  EXPECT_EQ(SplitPatternOf(gpt2), SplitPattern::kGpt2);
  EXPECT_EQ(SplitPatternOf(gpt2 + " "), std::nullopt);
}

}  // namespace
}  // namespace ng
