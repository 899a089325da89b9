// What stages that derive from ng/history_stage.h remember.
#include "ng/history_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Remembers the sum of the tokens behind the prompt, from 100 on.
class Sums final : public HistoryStage<int64_t> {
 public:
  explicit Sums(const ModelShape& model) : HistoryStage(model, 100) {}
  using HistoryStage::History;
  using HistoryStage::Last;

  absl::StatusOr<SequenceEnd> Accept(int slot, int32_t token) override {
    Remember(slot, Last(slot) + token);
    return SequenceEnd::kNo;
  }
  absl::Status Apply(int, const DrawKey&, CandidateSet&) override { return absl::OkStatus(); }
};

class Tokens final : public TokenHistoryStage {
 public:
  explicit Tokens(const ModelShape& model) : TokenHistoryStage(model) {}
  using TokenHistoryStage::History;

  absl::Status Apply(int, const DrawKey&, CandidateSet&) override { return absl::OkStatus(); }
};

const std::vector<int32_t> kPrompt = {7, 8};

TEST(HistoryStage, StartsWithTheSameForEveryTokenOfThePrompt) {
  Sums stage({});
  ASSERT_TRUE(stage.Open(3, kPrompt).ok());
  EXPECT_THAT(stage.History(3), ElementsAre(100, 100));
  ASSERT_TRUE(stage.Open(0, {}).ok());
  EXPECT_THAT(stage.History(0), IsEmpty());
  EXPECT_EQ(stage.Last(0), 100);
}

TEST(HistoryStage, GoesBackWithTruncate) {
  Sums stage({});
  ASSERT_TRUE(stage.Open(0, kPrompt).ok());
  for (const int32_t token : {1, 2, 3}) ASSERT_TRUE(stage.Accept(0, token).ok());
  EXPECT_EQ(stage.Last(0), 106);
  ASSERT_TRUE(stage.Truncate(0, 3).ok());
  EXPECT_EQ(stage.Last(0), 101);
  ASSERT_TRUE(stage.Truncate(0, 1).ok());
  EXPECT_THAT(stage.History(0), ElementsAre(100));
}

TEST(HistoryStage, KeepsAForkApartAndForgetsWithClose) {
  Sums stage({});
  ASSERT_TRUE(stage.Open(0, kPrompt).ok());
  ASSERT_TRUE(stage.Accept(0, 5).ok());
  ASSERT_TRUE(stage.Fork(0, 9).ok());
  ASSERT_TRUE(stage.Accept(9, 1).ok());
  ASSERT_TRUE(stage.Accept(0, 2).ok());
  EXPECT_THAT(stage.History(0), ElementsAre(100, 100, 105, 107));
  EXPECT_THAT(stage.History(9), ElementsAre(100, 100, 105, 106));
  ASSERT_TRUE(stage.Close(0).ok());
  EXPECT_THAT(stage.History(0), IsEmpty());
  EXPECT_EQ(stage.Last(9), 106);
}

TEST(HistoryStage, DoesNotMoveWhileTheContextIsBounded) {
  Tokens stage({.max_positions = 500});
  ASSERT_TRUE(stage.Open(0, kPrompt).ok());
  const int32_t* const begin = stage.History(0).data();
  for (int32_t i = 2; i <= 500; ++i) ASSERT_TRUE(stage.Accept(0, i).ok());
  EXPECT_EQ(stage.History(0).data(), begin);
}

TEST(TokenHistoryStage, RemembersPromptAndAnswer) {
  Tokens stage({});
  ASSERT_TRUE(stage.Open(0, kPrompt).ok());
  ASSERT_TRUE(stage.Accept(0, 9).ok());
  EXPECT_THAT(stage.History(0), ElementsAre(7, 8, 9));
}

}  // namespace
}  // namespace ng
