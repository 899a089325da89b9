// Prompts that are dealt to groups of ranks: what one process gives, in order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "tests/plugins/fabric/rank_runs.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;

TEST(RankGroups, GiveWhatOneProcessGivesInTheOrderOfThePrompts) {
  const Dealt alone = RunDealt({1, 1});
  ASSERT_TRUE(alone.of_rank[0].ok()) << alone.of_rank[0].status();
  for (const DealtCase& one : std::vector<DealtCase>{{2, 2}, {4, 2}, {3, 3}, {6, 2}}) {
    SCOPED_TRACE(absl::StrCat(one.ranks, " ranks, ", one.groups, " groups"));
    const Dealt dealt = RunDealt(one);
    for (const auto& of_rank : dealt.of_rank) ASSERT_TRUE(of_rank.ok()) << of_rank.status();
    ExpectSame(*dealt.of_rank[0], *alone.of_rank[0]);
    for (size_t i = 0; i < alone.of_rank[0]->size(); ++i) {
      EXPECT_EQ((*dealt.of_rank[0])[i].timings.decode_tokens,
                (*alone.of_rank[0])[i].timings.decode_tokens);
      EXPECT_TRUE((*dealt.of_rank.back())[i].ids.empty());
    }
    std::vector<std::string> in_order;
    for (size_t i = 0; i < alone.of_rank[0]->size(); ++i) {
      const int64_t n_steps = std::ssize((*alone.of_rank[0])[i].ids) - 4;
      for (int64_t step = 0; step < n_steps; ++step) {
        in_order.push_back(absl::StrCat(i, ".", step));
      }
      in_order.push_back(absl::StrCat(i, "."));
    }
    EXPECT_EQ(dealt.told, in_order);
  }
}

TEST(RankGroups, ThatAreSlowGetFewerPrompts) {
  const Dealt alone = RunDealt({1, 1});
  requests_of_rank = {};
  const Dealt dealt = RunDealt({2, 2, {"sampler.chain=temperature,top_k,slow"}});
  for (const auto& of_rank : dealt.of_rank) ASSERT_TRUE(of_rank.ok()) << of_rank.status();
  ExpectSame(*dealt.of_rank[0], *alone.of_rank[0]);
  const auto& [fast, slow] = requests_of_rank;
  EXPECT_EQ(fast.size() + slow.size(), 11U);
  EXPECT_GE(slow.size(), 1U);
  EXPECT_LT(slow.size(), fast.size());
}

TEST(RankGroups, EndTogetherWithTheErrorOfOneWhichRank0Tells) {
  const Dealt dealt = RunDealt({4, 2, {"sampler.chain=fails"}});
  for (size_t rank = 0; rank < dealt.of_rank.size(); ++rank) {
    const absl::Status& seen = dealt.of_rank[rank].status();
    EXPECT_FALSE(seen.ok());
    EXPECT_EQ(seen.code(), dealt.of_rank[0].status().code());
    EXPECT_EQ(IsToldElsewhere(seen), rank > 0) << seen;
  }
  EXPECT_THAT(std::string(dealt.of_rank[0].status().message()), HasSubstr("fails"));
  // As after an error of one process: everything has been reported.
  EXPECT_EQ(std::ranges::count_if(dealt.told, [](auto& one) { return one.back() == '.'; }), 11);
}

TEST(RankGroups, AreAllStoppedByOneRank) {
  for (const int stopped : {0, 1, 2, 3}) {
    const Dealt dealt = RunDealt({4, 2, {}, stopped});
    for (const auto& of_rank : dealt.of_rank) {
      ASSERT_TRUE(of_rank.ok()) << of_rank.status();
      EXPECT_EQ(of_rank->back().stop_reason, StopReason::kInterrupted);
    }
    EXPECT_EQ(dealt.told.back(), "10.");
  }
}

TEST(RankGroups, ThatTheRanksDoNotMakeAreRefused) {
  for (const auto& of_rank : RunDealt({4, 3}).of_rank) {
    EXPECT_EQ(ExitCode(of_rank.status()), 2);
    EXPECT_THAT(std::string(of_rank.status().message()),
                HasSubstr("= 3: 4 ranks do not make 3 groups of the same size"));
  }
  EXPECT_EQ(ExitCode(RunDealt({1, 2}).of_rank[0].status()), 2);
}

}  // namespace
}  // namespace ng::test
