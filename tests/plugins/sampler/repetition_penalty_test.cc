#include "plugins/sampler/repetition_penalty/repetition_penalty.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/plugins/sampler/sampler_testing.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

ModelShape Vocabulary(int64_t size) {
  ModelShape model;
  model.vocab_size = size;
  return model;
}

std::unique_ptr<SamplerStage> Penalty(double value, int64_t window, int64_t vocab_size) {
  return *RepetitionPenalty::Create({.value = value, .window = window}, Vocabulary(vocab_size));
}

// The logits that the last `window` of `tokens` leave, each distinct token changed once.
std::vector<Candidate> Expected(std::vector<float> logits, const std::vector<int32_t>& tokens,
                                float value, size_t window) {
  const size_t n = window == 0 ? tokens.size() : std::min(window, tokens.size());
  for (const int32_t id : std::set<int32_t>(tokens.end() - static_cast<int64_t>(n), tokens.end())) {
    logits[id] = logits[id] > 0 ? logits[id] / value : logits[id] * value;
  }
  return Candidates(logits);
}

RC_GTEST_PROP(RepetitionPenalty, ChangesEachDistinctRecentTokenOnce, ()) {
  const std::vector<float> logits = *Logits();
  const auto vocab_size = static_cast<int32_t>(logits.size());
  const auto tokens = *rc::gen::container<std::vector<int32_t>>(rc::gen::inRange(0, vocab_size));
  const size_t prompt_len = *rc::gen::inRange<size_t>(0, tokens.size() + 1);
  const size_t window = *rc::gen::inRange<size_t>(0, 20);
  const auto stage = Penalty(1.3, static_cast<int64_t>(window), vocab_size);

  RC_ASSERT(stage->Open(0, std::span(tokens).first(prompt_len)).ok());
  for (const int32_t token : std::span(tokens).subspan(prompt_len)) {
    RC_ASSERT(stage->Accept(0, token).ok());
  }
  const std::vector<Candidate> expected = Expected(logits, tokens, 1.3F, window);
  RC_ASSERT(*Apply(*stage, logits) == expected);
  RC_ASSERT(*ApplySparse(*stage, logits) == expected);
}

TEST(RepetitionPenalty, PenalisesPositiveAndNegativeLogits) {
  const auto stage = Penalty(2.0, 64, 4);
  ASSERT_TRUE(stage->Open(0, std::vector<int32_t>{0, 1, 0, 2}).ok());
  const std::vector<float> left = {2.0F, -6.0F, 0.0F, 5.0F};
  EXPECT_EQ(*Apply(*stage, std::vector<float>{4, -3, 0, 5}), Candidates(left));
}

TEST(RepetitionPenalty, TruncatesIntoThePrompt) {
  const auto stage = Penalty(2.0, 2, 4);
  ASSERT_TRUE(stage->Open(0, std::vector<int32_t>{0, 1}).ok());
  ASSERT_TRUE(stage->Accept(0, 2).ok());
  ASSERT_TRUE(stage->Accept(0, 3).ok());
  ASSERT_TRUE(stage->Truncate(0, 2).ok());
  const std::vector<float> prompt_again = {0.5F, 0.5F, 1.0F, 1.0F};
  EXPECT_EQ(*Apply(*stage, std::vector<float>(4, 1.0F)), Candidates(prompt_again));
  ASSERT_TRUE(stage->Truncate(0, 1).ok());
  const std::vector<float> first_only = {0.5F, 1.0F, 1.0F, 1.0F};
  EXPECT_EQ(*Apply(*stage, std::vector<float>(4, 1.0F)), Candidates(first_only));
}

TEST(RepetitionPenalty, GrowsPastItsReservation) {
  ModelShape model = Vocabulary(2);
  model.max_positions = 3;
  const auto stage = *RepetitionPenalty::Create({.value = 2.0, .window = 0}, model);
  ASSERT_TRUE(stage->Open(0, {}).ok());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(stage->Accept(0, i == 0 ? 0 : 1).ok());
  const std::vector<float> left = {0.5F, 0.5F};
  EXPECT_EQ(*Apply(*stage, std::vector<float>{1, 1}), Candidates(left));
}

TEST(RepetitionPenalty, DrawsFromThePenalisedSoftmax) {
  const std::vector<int32_t> prompt = {1, 3, 1};
  ExpectDraws(Penalty(2.0, 64, 4), prompt, std::vector<float>{0.5F, 2.0F, 1.0F, -0.5F},
              Softmax(std::vector<float>{0.5F, 1.0F, 1.0F, -1.0F}));
}

TEST(RepetitionPenalty, RejectsOptionsOutOfRange) {
  const ModelShape model = Vocabulary(4);
  EXPECT_EQ(RepetitionPenalty::Create({.value = 0.0}, model).status().message(),
            "sampler.repetition_penalty.value = 0, must be in (0, 100]");
  EXPECT_FALSE(RepetitionPenalty::Create({.value = std::nan("")}, model).ok());
  EXPECT_EQ(ExitCode(RepetitionPenalty::Create({.window = -1}, model).status()), 2);
}

TEST(RepetitionPenalty, RefusesPromptTokensOutsideTheVocabulary) {
  const auto stage = Penalty(1.1, 64, 4);
  const absl::Status status = stage->Open(0, std::vector<int32_t>{0, 4});
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("prompt token 4, must be in [0, 4)"));
}

TEST(RepetitionPenalty, RefusesToOverflow) {
  const auto stage = Penalty(1e-30, 64, 2);
  ASSERT_TRUE(stage->Open(0, std::vector<int32_t>{0}).ok());
  const absl::Status status = Apply(*stage, std::vector<float>{1e10F, 1}).status();
  EXPECT_EQ(ExitCode(status), 6);
  EXPECT_THAT(std::string(status.message()), HasSubstr("sampler.repetition_penalty.value"));
}

TEST(RepetitionPenalty, RefusesNanAndAllMinusInfinity) {
  const auto stage = Penalty(1.1, 64, 2);
  ASSERT_TRUE(stage->Open(0, {}).ok());
  EXPECT_EQ(ExitCode(Apply(*stage, std::vector<float>{1, kNan}).status()), 6);
  EXPECT_EQ(ExitCode(Apply(*stage, std::vector<float>{-kInf, -kInf}).status()), 6);
}

}  // namespace
}  // namespace ng
