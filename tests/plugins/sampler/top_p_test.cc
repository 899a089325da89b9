#include "plugins/sampler/top_p/top_p.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/plugins/sampler/sampler_testing.h"

namespace ng {
namespace {

// The definition itself, with room for rounding: the first of the order, reaching p, and not
// without the last of them.
RC_GTEST_PROP(TopP, KeepsTheSmallestSetThatReachesP, ()) {
  const std::vector<float> logits = *Logits();
  const double p = std::max(*Fraction(), 1e-6);
  const auto stage = *TopP::Create(p);
  const std::vector<Candidate> left = *Apply(*stage, logits);

  std::vector<Candidate> order = Ordered(logits);
  order.resize(left.size());
  const std::vector<double> probabilities = Softmax(logits);
  double mass = 0.0;
  for (const Candidate& kept : order) mass += probabilities[kept.id];
  RC_ASSERT(mass >= p - 1e-12);
  if (p < 1.0) RC_ASSERT(mass - probabilities[order.back().id] < p + 1e-12);

  std::sort(order.begin(), order.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  RC_ASSERT(left == order);
}

TEST(TopP, CountsEqualShares) {
  const std::vector<float> logits(10, 1.5F);
  for (const auto& [p, kept] : {std::pair(0.3, 3), {0.31, 4}, {0.05, 1}, {0.9, 9}, {1.0, 10}}) {
    EXPECT_EQ(Apply(**TopP::Create(p), logits)->size(), kept) << p;
  }
}

TEST(TopP, KeepsTheSameOfAPermutedSet) {
  const std::vector<float> logits = {0.1F, 3.0F, 2.5F, 2.5F, -1.0F, 2.5F, 0.1F};
  const auto stage = *TopP::Create(0.5);
  const std::vector<Candidate> expected = {{1, 3.0F}, {2, 2.5F}};
  EXPECT_EQ(*Apply(*stage, logits), expected);
  EXPECT_EQ(*ApplySparse(*stage, logits), expected);
}

TEST(TopP, ReachesIntoATailOfEqualTokens) {
  std::vector<float> logits(100000, 0.0F);
  logits[7] = std::log(100000.0F / 1.5F);  // 40 % of the mass
  EXPECT_EQ(Apply(**TopP::Create(0.3), logits)->size(), 1);
  EXPECT_NEAR(Apply(**TopP::Create(0.7), logits)->size(), 50001, 2);
}

TEST(TopP, ReachesFartherThanItsSteps) {
  // The others hold 4.66e-10 of the mass, 33 nats down: all but 1e-10 is 78 % of them.
  std::vector<float> logits(100000, 0.0F);
  logits[7] = 33.0F;
  EXPECT_NEAR(Apply(**TopP::Create(1.0 - 1e-10), logits)->size(), 78536, 200);
}

TEST(TopP, KeepsTheBestHoweverSmallPIs) {
  const std::vector<Candidate> expected = {{2, 4.0F}};
  EXPECT_EQ(*Apply(**TopP::Create(5e-324), std::vector<float>{1, 3, 4, 4}), expected);
}

TEST(TopP, KeepsWhatADoubleCannotResolveAtOne) {
  EXPECT_EQ(Apply(**TopP::Create(1.0), std::vector<float>{0, 1000, -1000})->size(), 3);
}

TEST(TopP, DrawsFromTheNucleus) {
  const std::vector<float> logits = {0.0F, 1.0F, 2.0F, 3.0F};
  const std::vector<double> kept = Softmax(std::vector<float>{2.0F, 3.0F});
  ExpectDraws(*TopP::Create(0.8), {}, logits, std::vector<double>{0, 0, kept[0], kept[1]});
}

TEST(TopP, RejectsMassAboveOne) {
  EXPECT_EQ(TopP::Create(1.7).status().message(), "sampler.top_p.p = 1.7, must be in (0, 1]");
  EXPECT_EQ(ExitCode(TopP::Create(0.0).status()), 2);
  EXPECT_FALSE(TopP::Create(std::nan("")).ok());
}

TEST(TopP, RefusesNanAndAllMinusInfinity) {
  const auto stage = *TopP::Create(0.5);
  EXPECT_EQ(ExitCode(Apply(*stage, std::vector<float>{1, kNan}).status()), 6);
  EXPECT_EQ(ExitCode(Apply(*stage, std::vector<float>{-kInf, -kInf}).status()), 6);
}

}  // namespace
}  // namespace ng
