// The stage `thoughts`, and what chat templates tell it.
#include "plugins/sampler/thoughts/thoughts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/core/text/chat/calls/call_templates.h"
#include "tests/plugins/sampler/sampler_testing.h"

namespace ng::thoughts_test {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

// A token for each of these texts, and some that have none.
constexpr std::string_view kTexts[] = {"a",     "b", " ",  "\n", "<",         "/",
                                       "think", ">", "</", "th", "<|think|>", "<|/think|>"};
enum Token : int32_t {
  kA,
  kB,
  kBlank,
  kLine,
  kLess,
  kSlash,
  kThink,
  kMore,
  kClose,
  kTh,
  kBegin,
  kEnd,
  kCall
};
constexpr int64_t kVocab = 16;

constexpr const char* kByTokens = R"({"begin": [10], "ends": [[11], [12, "x"]], "close": [11]})";
constexpr const char* kByTexts =
    R"({"begin": ["<think>"], "ends": [["</think>"]], "close": [4, 5, 6, 7]})";

PluginContext ContextOf() {
  static const std::vector<std::string_view> bytes = [] {
    std::vector<std::string_view> all(std::begin(kTexts), std::end(kTexts));
    all.resize(kVocab);
    all[kCall + 1] = "x";
    return all;
  }();
  PluginContext context;
  context.model.vocab_size = kVocab;
  context.token_bytes = bytes;
  return context;
}

// What a sequence is like in which the model wants these tokens: what comes instead.
Ids Written(SamplerStage& stage, const Ids& prompt, const Ids& wanted) {
  Ids written;
  EXPECT_TRUE(stage.Open(0, prompt).ok());
  for (const int32_t token : wanted) {
    std::vector<float> logits(kVocab, 0.0F);
    logits[static_cast<size_t>(token)] = 1.0F;
    const std::vector<Candidate> left = *Apply(stage, logits);
    written.push_back(left.size() == 1 ? left.front().id : token);
    EXPECT_TRUE(left.size() == 1 || left.size() == kVocab);
    EXPECT_EQ(*stage.Accept(0, written.back()), SequenceEnd::kNo);
  }
  return written;
}

Ids WrittenWith(const char* marks, int64_t budget, const Ids& prompt, const Ids& wanted) {
  return Written(**Thoughts::Create(budget, marks, ContextOf()), prompt, wanted);
}

TEST(ThoughtsStage, ClosesAfterSoManyTokens) {
  const Ids wanted = {kBegin, kA, kB, kA, kB, kA};
  EXPECT_EQ(WrittenWith(kByTokens, 2, {kA}, wanted), (Ids{kBegin, kA, kB, kEnd, kB, kA}));
  EXPECT_EQ(WrittenWith(kByTokens, 0, {kA}, wanted), (Ids{kBegin, kEnd, kB, kA, kB, kA}));
  EXPECT_EQ(WrittenWith(kByTokens, 9, {kA}, wanted), wanted);
  EXPECT_EQ(WrittenWith("", 0, {kBegin}, wanted), wanted);
  // The prompt has begun them, or has ended them.
  EXPECT_EQ(WrittenWith(kByTokens, 2, {kA, kBegin, kLine}, {kA, kA, kA, kB}),
            (Ids{kA, kA, kEnd, kB}));
  EXPECT_EQ(WrittenWith(kByTokens, 0, {kBegin, kA, kEnd}, {kA, kB}), (Ids{kA, kB}));
}

TEST(ThoughtsStage, CountsAllThoughtsOfAnAnswer) {
  EXPECT_EQ(WrittenWith(kByTokens, 2, {}, {kBegin, kA, kEnd, kB, kBegin, kA, kB}),
            (Ids{kBegin, kA, kEnd, kB, kBegin, kEnd, kB}));
  // A call within thoughts ends them; what looks like one does not.
  EXPECT_EQ(WrittenWith(kByTokens, 3, {kBegin}, {kA, kCall, kCall + 1, kA, kA, kA}),
            (Ids{kA, kCall, kCall + 1, kA, kA, kA}));
  EXPECT_EQ(WrittenWith(kByTokens, 3, {kBegin}, {kA, kCall, kA, kA}), (Ids{kA, kCall, kA, kEnd}));
}

TEST(ThoughtsStage, FindsMarksOfText) {
  const Ids begin = {kLess, kThink, kMore};
  const auto with = [](Ids first, const Ids& then) {
    first.insert(first.end(), then.begin(), then.end());
    return first;
  };
  const Ids close = {kLess, kSlash, kThink, kMore};
  EXPECT_EQ(WrittenWith(kByTexts, 2, {kA}, with(begin, {kA, kB, kA, kA, kA, kA, kB})),
            with(with(begin, {kA, kB}), with(close, {kB})));
  // At the end of a prompt, or at the beginning of an answer, and nowhere else.
  EXPECT_EQ(WrittenWith(kByTexts, 1, with(begin, {kLine}), {kA, kB, kB, kB, kB, kB}),
            with({kA}, with(close, {kB})));
  EXPECT_EQ(WrittenWith(kByTexts, 0, with(begin, {kA}), {kA, kB}), (Ids{kA, kB}));
  const Ids later = with({kA}, with(begin, {kB, kB}));
  EXPECT_EQ(WrittenWith(kByTexts, 0, {}, later), later);
  EXPECT_EQ(WrittenWith(kByTexts, 0, {}, with({kLine}, with(begin, {kB}))),
            with({kLine}, with(begin, {kLess})));
  // Where the model has begun the mark itself the rest of it comes: also where its tokens differ.
  EXPECT_EQ(WrittenWith(kByTexts, 2, begin, {kA, kLess, kB, kB, kB, kB}),
            (Ids{kA, kLess, kSlash, kThink, kMore, kB}));
  EXPECT_EQ(WrittenWith(kByTexts, 1, begin, {kClose, kB, kB, kB}),
            (Ids{kClose, kThink, kMore, kB}));
  EXPECT_EQ(WrittenWith(kByTexts, 2, begin, {kClose, kTh, kB, kB, kB, kB, kB}),
            with({kClose, kTh}, with(close, {kB})));
}

TEST(ThoughtsStage, GoesBackWithItsSequence) {
  const auto stage = *Thoughts::Create(2, kByTokens, ContextOf());
  EXPECT_EQ(Written(*stage, {kBegin}, {kA, kA, kA}), (Ids{kA, kA, kEnd}));
  ASSERT_TRUE(stage->Truncate(0, 2).ok());
  ASSERT_TRUE(stage->Fork(0, 3).ok());
  const std::vector<float> logits(kVocab, 0.0F);
  EXPECT_EQ(Apply(*stage, logits)->size(), static_cast<size_t>(kVocab));
  ASSERT_TRUE(stage->Accept(0, kB).ok());
  EXPECT_EQ(*Apply(*stage, logits), (std::vector<Candidate>{{kEnd, 0.0F}}));
}

TEST(ThoughtsStage, SaysWhatIsWrong) {
  const auto error = [](const char* marks) {
    return std::string(Thoughts::Create(1, marks, ContextOf()).status().message());
  };
  EXPECT_THAT(error("{"), HasSubstr("sampler.thoughts.marks: must be an object with"));
  EXPECT_THAT(error(R"({"begin": [10], "ends": [], "close": [11]})"), HasSubstr("begin, ends"));
  EXPECT_THAT(error(R"({"begin": [99], "ends": [[11]], "close": [11]})"), HasSubstr("[99], must"));
  EXPECT_THAT(error(R"({"begin": [], "ends": [[11]], "close": [11]})"), HasSubstr("[], must"));
  EXPECT_THAT(error(R"({"begin": [10], "ends": [[11]], "close": [12]})"), HasSubstr("do not come"));
  EXPECT_THAT(error(R"({"begin": [10], "ends": [[11]], "close": [11, 1]})"), HasSubstr("has more"));
  EXPECT_THAT(error(R"({"begin": [10], "ends": [[11]], "close": [16]})"), HasSubstr("16 in close"));
  EXPECT_THAT(error(R"({"begin": [1], "ends": [[1],[1],[1],[1],[1],[1],[1]], "close": [1]})"),
              HasSubstr("7 ends, must be at most 6"));
  EXPECT_THAT((*Thoughts::Create(1, "", ContextOf()))->Report(), HasSubstr("no marks of thoughts"));
  const auto stage = *Thoughts::Create(0, kByTokens, ContextOf());
  ASSERT_TRUE(stage->Open(0, Ids{kBegin}).ok());
  std::vector<float> logits(kVocab, 0.0F);
  logits[kEnd] = -kInf;
  EXPECT_THAT(Apply(*stage, logits).status().message(), HasSubstr("put thoughts first"));
}

// The template's marks are those that its reader knows: a token that ends thoughts, the mark of a
// call, and the tokens that close.
TEST(ThoughtsStage, IsToldByTheTemplate) {
  const test::BoundTemplate bound = test::Bind(test::CallTemplateOf("hermes"));
  const auto id = [&](std::string_view mark) {
    return bound.tokenizer->Encode(mark, {.parse_special = true})->front();
  };
  const auto marks = nlohmann::json::parse(bound.chat->ThoughtMarks());
  const auto one = [](const nlohmann::json& value) { return nlohmann::json::array({value}); };
  EXPECT_EQ(marks["begin"], one(id("<think>")));
  EXPECT_EQ(marks["ends"][0], one(id("</think>")));
  EXPECT_EQ(marks["ends"][1], one(id("<tool_call>")));
  EXPECT_EQ(marks["ends"].size(), 2U);
  EXPECT_EQ(marks["close"], one(id("</think>")));
  const test::BoundTemplate spelled =
      test::Bind(test::CallTemplateOf("hermes"), /*marks_are_tokens=*/false);
  EXPECT_EQ(nlohmann::json::parse(spelled.chat->ThoughtMarks())["ends"].size(), 1U);
}

}  // namespace
}  // namespace ng::thoughts_test
