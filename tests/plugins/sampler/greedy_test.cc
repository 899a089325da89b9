#include "plugins/sampler/greedy/greedy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/plugins/sampler/sampler_testing.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

RC_GTEST_PROP(Greedy, LeavesTheLargestLogitAndTheLowestIdOfEquals, ()) {
  const std::vector<float> logits = *Logits();
  Greedy stage;
  const std::vector<Candidate> expected = {Ordered(logits).front()};
  RC_ASSERT(*Apply(stage, logits) == expected);
  RC_ASSERT(*ApplySparse(stage, logits) == expected);
}

TEST(Greedy, DrawsOnlyTheLargest) {
  ExpectDraws(std::make_unique<Greedy>(), {}, std::vector<float>{0, 2, 1, 2},
              std::vector<double>{0, 1, 0, 0});
}

TEST(Greedy, RefusesNan) {
  Greedy stage;
  const absl::Status status = Apply(stage, std::vector<float>{1, kNan, 3}).status();
  EXPECT_EQ(ExitCode(status), 6);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the logit of token 1 is nan"));
}

TEST(Greedy, RefusesWhenNothingCanBeDrawn) {
  Greedy stage;
  EXPECT_EQ(ExitCode(Apply(stage, std::vector<float>{-kInf, -kInf}).status()), 6);
}

}  // namespace
}  // namespace ng
