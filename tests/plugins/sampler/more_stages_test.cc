// Stages beyond the basic ones: what each draws from, held against its definition; what follows the
// answer; and what they refuse. tests/core/conform/sampler_definitions_test.cc has the definitions
// over many inputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "core/sampling/sampling.h"
#include "plugins/sampler/dry/dry.h"
#include "plugins/sampler/frequency_penalty/count_penalty.h"
#include "plugins/sampler/logit_bias/logit_bias.h"
#include "plugins/sampler/mirostat/mirostat.h"
#include "plugins/sampler/stop_texts/stop_texts.h"
#include "plugins/sampler/top_n_sigma/top_n_sigma.h"
#include "plugins/sampler/typical_p/typical_p.h"
#include "plugins/sampler/xtc/xtc.h"
#include "tests/plugins/sampler/sampler_testing.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PluginContext Context(int64_t vocab_size) {
  PluginContext context;
  context.model.vocab_size = vocab_size;
  context.model.max_positions = 100;
  return context;
}

// The probabilities of what `kept` says, in proportion.
std::vector<double> Among(std::vector<double> probabilities, std::span<const int32_t> kept) {
  double total = 0.0;
  for (size_t id = 0; id < probabilities.size(); ++id) {
    if (std::ranges::count(kept, id) == 0) probabilities[id] = 0.0;
    total += probabilities[id];
  }
  for (double& probability : probabilities) probability /= total;
  return probabilities;
}

std::vector<float> LogitsOf(std::span<const double> probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// The entropy of these is 1.21 nats: the surprises are 0.69, 1.39, 1.90, 2.30.
const std::vector<double> kProbabilities = {0.5, 0.25, 0.15, 0.1};

TEST(TypicalP, DrawsFromTheSurprisesNearestToTheEntropy) {
  const std::vector<float> logits = LogitsOf(kProbabilities);
  const std::vector<int32_t> one = {1};
  ExpectDraws(*TypicalP::Create(0.2), {}, logits, Among(kProbabilities, one));
  const std::vector<int32_t> two = {0, 1};
  ExpectDraws(*TypicalP::Create(0.6), {}, logits, Among(kProbabilities, two));
  const std::vector<int32_t> three = {0, 1, 2};
  ExpectDraws(*TypicalP::Create(0.8), {}, logits, Among(kProbabilities, three));
  ExpectDraws(*TypicalP::Create(1.0), {}, logits, kProbabilities);
}

TEST(TypicalP, LeavesOutTheBestWhereItIsNotTypical) {
  std::vector<float> logits(1001, 0.0F);
  logits[3] = std::log(300.0F);  // 23 % of the mass; the others are nearer to the entropy
  const std::vector<Candidate> left = *Apply(**TypicalP::Create(0.5), logits);
  EXPECT_NEAR(left.size(), 650, 2);
  EXPECT_EQ(std::ranges::count(left, 3, &Candidate::id), 0);
}

TEST(TopNSigma, DrawsFromWhatIsWithinTheDeviations) {
  const std::vector<float> logits = {0.0F, 1.0F, 2.0F, 3.0F};  // the deviation is sqrt(1.25)
  const std::vector<double> all = Softmax(logits);
  const std::vector<int32_t> two = {2, 3};
  ExpectDraws(*TopNSigma::Create(1.0), {}, logits, Among(all, two));
  const std::vector<int32_t> three = {1, 2, 3};
  ExpectDraws(*TopNSigma::Create(1.8), {}, logits, Among(all, three));
  const std::vector<float> gap = {0.0F, -kInf, 2.0F, 3.0F};  // -inf does not count
  EXPECT_EQ(Apply(**TopNSigma::Create(0.9), gap)->size(), 2);
  EXPECT_EQ(Apply(**TopNSigma::Create(0.0), gap)->size(), 1);
}

TEST(Xtc, RemovesTheTopChoicesButTheLastAsOftenAsAsked) {
  const std::vector<float> logits = LogitsOf(kProbabilities);
  // Of 0.5, 0.25 and 0.15 the last stays, with 0.1: 0.6 and 0.4.
  const std::vector<double> removed = {0.0, 0.0, 0.6, 0.4};
  for (const double share : {0.0, 0.3, 1.0}) {
    std::vector<double> expected(4);
    for (size_t id = 0; id < 4; ++id) {
      expected[id] = share * removed[id] + (1 - share) * kProbabilities[id];
    }
    ExpectDraws(*Xtc::Create({.probability = share, .threshold = 0.12}, 4), {}, logits, expected);
  }
}

TEST(Xtc, LeavesOneTopChoiceAlone) {
  const auto stage = *Xtc::Create({.probability = 1.0, .threshold = 0.3}, 4);
  EXPECT_EQ(Apply(*stage, LogitsOf(kProbabilities))->size(), 4);
  // Of equal ones the lowest id stays, as everywhere.
  const auto equal = *Xtc::Create({.probability = 1.0, .threshold = 0.2}, 4);
  const std::vector<Candidate> left = *Apply(*equal, std::vector<float>(4, 1.0F));
  EXPECT_EQ(std::ranges::count(left, 1.0F, &Candidate::logit), 1);
  EXPECT_EQ(left[0].logit, 1.0F);
}

TEST(LogitBias, AddsTheBiasesOfOneTokenAndChangesItOnce) {
  const std::vector<std::string_view> pairs = {"1=2", "0=1", "1=0.5"};
  const std::vector<Candidate> left =
      *Apply(**LogitBias::Create(pairs, 3), std::vector<float>{0, 0, 0});
  EXPECT_EQ(left[0].logit, 1.0F);
  EXPECT_EQ(left[1].logit, 2.5F);
  EXPECT_EQ(left[2].logit, 0.0F);
}

TEST(LogitBias, DrawsFromTheBiasedLogits) {
  const std::array<std::string_view, 3> pairs = {"0=1.5", "2=-inf", "0=0.5"};
  const std::vector<float> logits = {0.0F, 1.0F, 5.0F, 2.0F};
  const std::vector<float> biased = {2.0F, 1.0F, -kInf, 2.0F};
  ExpectDraws(*LogitBias::Create(pairs, 4), {}, logits, Softmax(biased));
  for (const std::string_view bad : {"4=1", "-1=1", "1", "1=", "1=nan", "1=inf", "=1", "1=1x"}) {
    const auto refused = LogitBias::Create(std::span(&bad, 1), 4);
    EXPECT_EQ(ExitCode(refused.status()), 2) << bad;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("[0, 4)")) << bad;
  }
}

TEST(CountPenalty, DrawsAsOpenAiDefinesIt) {
  const std::vector<int32_t> prompt = {3, 1, 0, 0, 2, 0};
  const std::vector<float> logits = {2.0F, 1.0F, 1.0F, 1.0F};
  const auto model = Context(4).model;
  const std::vector<float> frequency = {2.0F - 3 * 0.7F, 0.3F, 0.3F, 0.3F};
  ExpectDraws(std::make_unique<CountPenalty>(CountsAs::kFrequency,
                                             CountPenaltyOptions{.value = 0.7, .window = 0}, model),
              prompt, logits, Softmax(frequency));
  const std::vector<float> presence = {1.3F, 1.0F, 0.3F, 1.0F};  // of the last 4
  ExpectDraws(std::make_unique<CountPenalty>(CountsAs::kPresence,
                                             CountPenaltyOptions{.value = 0.7, .window = 4}, model),
              prompt, logits, Softmax(presence));
}

TEST(Dry, TakesFromWhatGoesOnWithARepetition) {
  const std::vector<float> logits(6, 0.0F);
  // "1 2 3" comes again: 3 would be the third token of a repetition of two.
  const std::vector<int32_t> prompt = {1, 2, 3, 5, 4, 1, 2, 5, 1, 2};
  const DryOptions options = {.multiplier = 0.5, .base = 2.0, .allowed = 1};
  ExpectDraws(*Dry::Create(options, Context(6)), prompt, logits,
              Softmax(std::vector<float>{0, 0, 0, -1, 0, -1}));
  const DryOptions longer = {.multiplier = 0.5, .base = 2.0, .allowed = 3};
  ExpectDraws(*Dry::Create(longer, Context(6)), prompt, logits, Softmax(logits));
  const DryOptions window = {.multiplier = 0.5, .base = 2.0, .allowed = 1, .window = 5};
  ExpectDraws(*Dry::Create(window, Context(6)), prompt, logits,
              Softmax(std::vector<float>{0, 0, 0, 0, 0, -1}));
}

TEST(Dry, StopsAtBreakers) {
  const std::vector<std::string_view> bytes = {"a", "b", "c", "d:", "e", "f"};
  const std::array<std::string_view, 1> breakers = {":"};
  PluginContext context = Context(6);
  context.token_bytes = bytes;
  const DryOptions options = {.multiplier = 0.5, .base = 2, .allowed = 1, .breakers = breakers};
  const auto stage = *Dry::Create(options, context);
  // Of "b d: b" only the b behind the breaker repeats; and a breaker itself loses nothing.
  ASSERT_TRUE(stage->Open(0, std::vector<int32_t>{1, 3, 1, 2, 1, 3, 1}).ok());
  const std::vector<Candidate> left = *Apply(*stage, std::vector<float>(6, 0.0F));
  std::vector<float> logits;
  for (const Candidate& candidate : left) logits.push_back(candidate.logit);
  EXPECT_THAT(logits, ElementsAre(0, 0, -0.5F, 0, 0, 0));
}

// The mean surprise of what is drawn comes to tau, and mu follows each token as defined.
TEST(Mirostat, HoldsTheSurprise) {
  constexpr double kTau = 2.0;
  std::vector<float> logits(64);
  for (size_t id = 0; id < logits.size(); ++id) logits[id] = -0.05F * static_cast<float>(id);
  std::vector<ChainStage> stages;
  stages.push_back({"mirostat", *Mirostat::Create({.tau = kTau, .eta = 0.1}, Context(64).model)});
  SamplerChain chain(std::move(stages), 64);
  ASSERT_TRUE(chain.Open(0, {}).ok());
  const std::vector<double> probabilities = Softmax(logits);
  double mu = 2 * kTau;
  double total = 0.0;
  constexpr int kSteps = 2000;
  for (int step = 0; step < kSteps; ++step) {
    double mass = 0.0;
    for (const double p : probabilities) mass += -std::log2(p) <= mu ? p : 0.0;
    const int32_t token = *chain.Choose(0, logits, {5, 0, step, 0});
    const double p = probabilities[static_cast<size_t>(token)];
    const bool best = mass == 0.0;  // then only the best is kept
    ASSERT_TRUE(best ? token == 0 : -std::log2(p) <= mu + 1e-6) << step;
    const double surprise = best ? 0.0 : -std::log2(p / mass);
    mu -= 0.1 * (surprise - kTau);
    total += surprise;
    ASSERT_TRUE(chain.Accept(0, token).ok());
  }
  EXPECT_NEAR(total / kSteps, kTau, 0.05);
}

// A token moves mu where an Apply left it to be drawn. Told of more tokens than it drew (the answer
// of a request that goes on), or cut back, the stage is where only the drawn ones lead.
TEST(Mirostat, IsMovedByWhatIsDrawnAlone) {
  const std::vector<float> logits = {2, 1.5F, 1, 0.5F, 0, -0.5F};
  const auto make = [] {
    auto stage = *Mirostat::Create({.tau = 1.0, .eta = 2.5}, Context(6).model);
    EXPECT_TRUE(stage->Open(0, std::vector<int32_t>{1}).ok());
    return stage;
  };
  const auto n_left = [&logits](SamplerStage& stage) { return Apply(stage, logits)->size(); };
  const auto once = make();
  const size_t n_before = n_left(*once);
  ASSERT_TRUE(once->Accept(0, 0).ok());
  const size_t n_after = n_left(*once);
  ASSERT_GT(n_after, n_before);
  const auto twice = make();
  n_left(*twice);
  ASSERT_TRUE(twice->Accept(0, 0).ok());
  ASSERT_TRUE(twice->Accept(0, 0).ok());
  EXPECT_EQ(n_left(*twice), n_after);
  const auto cut = make();
  n_left(*cut);
  ASSERT_TRUE(cut->Truncate(0, 1).ok());
  ASSERT_TRUE(cut->Accept(0, 0).ok());
  EXPECT_EQ(n_left(*cut), n_before);
}

class StopTextsTest : public ::testing::Test {
 protected:
  static constexpr int32_t kEot = 5;

  // Accepts the ids and gives, after each, how many bytes are held, and -1 more where it has ended.
  std::vector<int64_t> Held(std::span<const std::string_view> texts,
                            const std::vector<int32_t>& ids) {
    static const std::vector<std::string_view> bytes = {"ab", "c", "d\n", "\nE", "ND.", "</s>"};
    static const std::vector<int32_t> stop_ids = {kEot};
    PluginContext context = Context(6);
    context.token_bytes = bytes;
    context.stop_ids = stop_ids;
    const auto stage = *StopTexts::Create(texts, context);
    EXPECT_TRUE(stage->Open(0, std::vector<int32_t>{0, 3}).ok());
    std::vector<int64_t> held;
    for (const int32_t id : ids) {
      const SequenceEnd end = *stage->Accept(0, id);
      held.push_back(*stage->HeldBytes(0));
      if (end == SequenceEnd::kStopText) held.push_back(-1);
    }
    return held;
  }
};

TEST_F(StopTextsTest, EndAcrossTokensAndHoldWhatMayBegin) {
  const std::array<std::string_view, 2> texts = {"\n\nEND", "bcd"};
  EXPECT_THAT(Held(texts, {0, 0, 2}), ElementsAre(1, 1, 1));
  EXPECT_THAT(Held(texts, {2, 3, 4}), ElementsAre(1, 3, 6, -1));  // "END" and the dot behind it
  EXPECT_THAT(Held(texts, {2, 3, 0}), ElementsAre(1, 3, 1));
  EXPECT_THAT(Held(texts, {0, 1, 2}), ElementsAre(1, 2, 4, -1));  // "bcd", not "\n"
  EXPECT_THAT(Held(texts, {4}), ElementsAre(0));                  // the prompt does not count
  EXPECT_THAT(Held(texts, {0, kEot}), ElementsAre(1, 1));         // a stop id has no text
}

TEST_F(StopTextsTest, TakeTheFirstPlaceOfSeveral) {
  const std::array<std::string_view, 2> texts = {"D.", "END."};
  EXPECT_THAT(Held(texts, {3, 4}), ElementsAre(1, 4, -1));
  const std::array<std::string_view, 1> inside = {"b"};
  EXPECT_THAT(Held(inside, {1, 0}), ElementsAre(0, 1, -1));
}

TEST_F(StopTextsTest, NeedATokenizer) {
  const std::array<std::string_view, 1> texts = {"END"};
  EXPECT_EQ(ExitCode(StopTexts::Create(texts, Context(6)).status()), 2);
  EXPECT_TRUE(StopTexts::Create({}, Context(6)).ok());
}

TEST(MoreStages, RefuseWhatIsOutOfRange) {
  for (const auto& status :
       {TypicalP::Create(0.0).status(), TypicalP::Create(1.5).status(),
        TopNSigma::Create(-1.0).status(), Xtc::Create({.probability = 2}, 4).status(),
        Xtc::Create({.threshold = 0}, 4).status(), Mirostat::Create({.tau = 0}, {}).status(),
        Mirostat::Create({.eta = -1}, {}).status(), Dry::Create({.base = 0.5}, {}).status(),
        Dry::Create({.allowed = 0}, {}).status(), Dry::Create({.window = -1}, {}).status(),
        Dry::Create({.multiplier = std::nan("")}, {}).status()}) {
    EXPECT_EQ(ExitCode(status), 2) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(", must be ")) << status;
  }
}

}  // namespace
}  // namespace ng
