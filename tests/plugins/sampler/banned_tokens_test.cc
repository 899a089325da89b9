#include "plugins/sampler/banned_tokens/banned_tokens.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "tests/plugins/sampler/sampler_testing.h"

namespace ng {
namespace {

RC_GTEST_PROP(BannedTokens, GivesTheBannedMinusInfinityAndLeavesTheRest, ()) {
  const std::vector<float> logits = *Logits();
  const auto vocab_size = static_cast<int64_t>(logits.size());
  const auto ids = *rc::gen::container<std::set<int64_t>>(rc::gen::inRange<int64_t>(0, vocab_size));
  RC_PRE(ids.size() < logits.size());
  const auto stage =
      *BannedTokens::Create(std::vector<int64_t>(ids.begin(), ids.end()), vocab_size);
  std::vector<float> expected = logits;
  for (const int64_t id : ids) expected[id] = -kInf;
  RC_ASSERT(*Apply(*stage, logits) == Candidates(expected));
  RC_ASSERT(*ApplySparse(*stage, logits) == Candidates(expected));
}

TEST(BannedTokens, NeverDrawsThem) {
  const std::vector<double> kept = Softmax(std::vector<float>{0.0F, 1.0F});
  ExpectDraws(*BannedTokens::Create(std::vector<int64_t>{1, 3}, 4), {},
              std::vector<float>{0.0F, 9.0F, 1.0F, 2.0F},
              std::vector<double>{kept[0], 0, kept[1], 0});
}

TEST(BannedTokens, DoesNothingWithoutIds) {
  const std::vector<float> logits = {1, 2};
  EXPECT_EQ(*Apply(**BannedTokens::Create({}, 2), logits), Candidates(logits));
}

TEST(BannedTokens, RefusesIdsOutsideTheVocabulary) {
  const absl::Status status = BannedTokens::Create(std::vector<int64_t>{0, 4}, 4).status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_EQ(status.message(),
            "sampler.banned_tokens.ids has 4, must be in [0, 4) (the vocabulary)");
  EXPECT_FALSE(BannedTokens::Create(std::vector<int64_t>{-1}, 4).ok());
}

TEST(BannedTokens, RefusesToBanAllThatIsLeft) {
  const auto stage = *BannedTokens::Create(std::vector<int64_t>{0, 2, 2}, 3);
  const absl::Status status = Apply(*stage, std::vector<float>{1, -kInf, 3}).status();
  EXPECT_EQ(ExitCode(status), 6);
  EXPECT_EQ(status.message(),
            "after sampler.banned_tokens.ids (3 ids) was applied to 3 candidates: no token can be "
            "drawn: all 3 candidates have logit -inf");
}

TEST(BannedTokens, RefusesNanAlsoOfABannedToken) {
  const auto stage = *BannedTokens::Create(std::vector<int64_t>{0}, 3);
  EXPECT_EQ(ExitCode(Apply(*stage, std::vector<float>{kNan, 2, 3}).status()), 6);
  EXPECT_EQ(ExitCode(Apply(*stage, std::vector<float>{1, kNan, 3}).status()), 6);
}

}  // namespace
}  // namespace ng
