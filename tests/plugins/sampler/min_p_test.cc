#include "plugins/sampler/min_p/min_p.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/plugins/sampler/sampler_testing.h"

namespace ng {
namespace {

// The definition, with room for rounding where a ratio is p.
RC_GTEST_PROP(MinP, KeepsWhatIsAtLeastPTimesTheBest, ()) {
  const std::vector<float> logits = *Logits();
  const double p = *Fraction();
  const auto stage = *MinP::Create(p);
  const std::vector<Candidate> left = *Apply(*stage, logits);
  const std::vector<double> probabilities = Softmax(logits);
  const double bar = p * *std::max_element(probabilities.begin(), probabilities.end());
  std::vector<bool> kept(logits.size());
  for (const Candidate& candidate : left) {
    kept[candidate.id] = true;
    RC_ASSERT(candidate.logit == logits[candidate.id]);
    RC_ASSERT(probabilities[candidate.id] >= bar * (1 - 1e-12));
  }
  for (size_t i = 0; i < logits.size(); ++i) {
    RC_ASSERT(kept[i] || probabilities[i] < bar * (1 + 1e-12));
  }
  RC_ASSERT(*ApplySparse(*stage, logits) == left);
}

TEST(MinP, KeepsAllAtZeroAndTheEqualsOfTheBestAtOne) {
  const std::vector<float> logits = {1, 3, -1000, 3};
  EXPECT_EQ(Apply(**MinP::Create(0.0), logits)->size(), 4);
  const std::vector<Candidate> best = {{1, 3.0F}, {3, 3.0F}};
  EXPECT_EQ(*Apply(**MinP::Create(1.0), logits), best);
}

TEST(MinP, DrawsFromTheSoftmaxOfTheKept) {
  const std::vector<double> kept = Softmax(std::vector<float>{1.0F, 0.5F});
  ExpectDraws(*MinP::Create(0.5), {}, std::vector<float>{1.0F, 0.0F, 0.5F, -1.0F},
              std::vector<double>{kept[0], 0, kept[1], 0});
}

TEST(MinP, RejectsRatiosOutsideZeroToOne) {
  EXPECT_EQ(MinP::Create(1.5).status().message(), "sampler.min_p.p = 1.5, must be in [0, 1]");
  EXPECT_EQ(ExitCode(MinP::Create(-0.1).status()), 2);
  EXPECT_FALSE(MinP::Create(std::nan("")).ok());
}

TEST(MinP, RefusesNanAndAllMinusInfinity) {
  const auto stage = *MinP::Create(0.05);
  EXPECT_EQ(ExitCode(Apply(*stage, std::vector<float>{1, kNan}).status()), 6);
  EXPECT_EQ(ExitCode(Apply(*stage, std::vector<float>{-kInf, -kInf}).status()), 6);
}

}  // namespace
}  // namespace ng
