#include "plugins/sampler/temperature/temperature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "tests/plugins/sampler/sampler_testing.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

RC_GTEST_PROP(Temperature, DividesEveryLogit, ()) {
  const std::vector<float> logits = *Logits();
  const double value = *rc::gen::inRange(1, 1000) / 10.0;
  const auto stage = *Temperature::Create(value);
  const std::vector<Candidate> left = *Apply(*stage, logits);
  RC_ASSERT(left.size() == logits.size());
  for (size_t i = 0; i < left.size(); ++i) {
    RC_ASSERT(left[i].id == static_cast<int32_t>(i));
    RC_ASSERT(std::abs(left[i].logit - logits[i] / value) <= 1e-6 * std::abs(logits[i] / value));
  }
  RC_ASSERT(*ApplySparse(*stage, logits) == left);
}

TEST(Temperature, DrawsFromTheSharpenedSoftmax) {
  const std::vector<float> logits = {0.0F, 0.5F, 1.0F, -0.5F, 1.5F};
  const std::vector<double> expected = Softmax(std::vector<float>{0, 1, 2, -1, 3});
  ExpectDraws(*Temperature::Create(0.5), {}, logits, expected);
}

TEST(Temperature, RefusesZeroAndNamesGreedy) {
  const absl::Status status = Temperature::Create(0.0).status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_EQ(status.message(),
            "sampler.temperature.value = 0, must be in (0, 100]; the limit at 0 is the stage "
            "greedy");
}

TEST(Temperature, RefusesNegativeHugeAndNan) {
  EXPECT_FALSE(Temperature::Create(-1.0).ok());
  EXPECT_FALSE(Temperature::Create(100.5).ok());
  EXPECT_FALSE(Temperature::Create(std::nan("")).ok());
  EXPECT_TRUE(Temperature::Create(100.0).ok());
}

// 1e-38 is in the documented range, and no logit above 4 divided by it is in that of f32.
TEST(Temperature, LeavesTheBestNearZero) {
  const std::vector<float> logits = {-10.0F, 30.0F, 20.0F, 30.0F, -kInf};
  const std::vector<float> negative = {-20.0F, -10.0F};
  for (const double value : {1e-38, 1e-40, 1e-300}) {
    const auto stage = *Temperature::Create(value);
    const std::vector<Candidate> left = *Apply(*stage, logits);
    for (const Candidate& candidate : left) {
      const bool best = candidate.id == 1 || candidate.id == 3;
      EXPECT_EQ(candidate.logit, best ? 0.0F : -kInf) << candidate.id;
    }
    EXPECT_EQ((*Apply(*stage, negative))[1].logit, 0.0F);
    EXPECT_EQ(*ApplySparse(*stage, logits), left);
    EXPECT_EQ(ExitCode(Apply(*stage, std::vector<float>{1, kNan}).status()), 6);
  }
  // What can be divided is.
  EXPECT_EQ((*Apply(**Temperature::Create(1e-35), std::vector<float>{1, 2}))[0].logit,
            1.0F / 1e-35F);
}

TEST(Temperature, RefusesLogitsThatNoOtherTemperatureCouldMakeFinite) {
  const auto stage = *Temperature::Create(1e-20);
  const absl::Status status = Apply(*stage, std::vector<float>{1e30F, 1.0F}).status();
  EXPECT_EQ(ExitCode(status), 6);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the limit at 0 is the stage greedy"));
}

TEST(Temperature, RefusesNanAndAllMinusInfinity) {
  const auto stage = *Temperature::Create(0.9);
  EXPECT_EQ(ExitCode(Apply(*stage, std::vector<float>{1, kNan}).status()), 6);
  EXPECT_EQ(ExitCode(Apply(*stage, std::vector<float>{-kInf}).status()), 6);
}

}  // namespace
}  // namespace ng
