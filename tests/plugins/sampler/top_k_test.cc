#include "plugins/sampler/top_k/top_k.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tests/plugins/sampler/sampler_testing.h"

namespace ng {
namespace {

RC_GTEST_PROP(TopK, KeepsExactlyTheFirstKOfTheOrder, ()) {
  const std::vector<float> logits = *Logits();
  const int k = *rc::gen::inRange(1, 70);
  const auto stage = *TopK::Create(k);
  std::vector<Candidate> expected = Ordered(logits);
  expected.resize(std::min<size_t>(k, expected.size()));
  std::sort(expected.begin(), expected.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  RC_ASSERT(*Apply(*stage, logits) == expected);
  RC_ASSERT(*ApplySparse(*stage, logits) == expected);
}

TEST(TopK, DrawsFromTheSoftmaxOfTheKept) {
  const std::vector<double> kept = Softmax(std::vector<float>{1.0F, 2.0F, 1.0F});
  ExpectDraws(*TopK::Create(3), {}, std::vector<float>{0.5F, 1.0F, 2.0F, 1.0F, 1.0F},
              std::vector<double>{0, kept[0], kept[1], kept[2], 0});
}

TEST(TopK, RefusesLessThanOne) {
  EXPECT_EQ(TopK::Create(0).status().message(), "sampler.top_k.k = 0, must be at least 1");
  EXPECT_EQ(ExitCode(TopK::Create(-5).status()), 2);
}

TEST(TopK, RefusesNanEvenWhenItWouldBeCut) {
  const auto stage = *TopK::Create(1);
  EXPECT_EQ(ExitCode(Apply(*stage, std::vector<float>{5, 6, -kNan, 7}).status()), 6);
  EXPECT_EQ(ExitCode(Apply(*stage, std::vector<float>{5, kInf}).status()), 6);
  EXPECT_EQ(ExitCode(Apply(*stage, std::vector<float>{-kInf, -kInf}).status()), 6);
}

}  // namespace
}  // namespace ng
