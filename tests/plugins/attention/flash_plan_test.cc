#include "plugins/attention/flash/flash_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "plugins/attention/flash/flash_kernel.h"
#include "plugins/attention/flash/flash_scratch.h"

namespace ng {
namespace {

constexpr int kHeads = 9;
constexpr int kKvHeads = 3;
constexpr int kHeadDim = 64;

const AttentionSpec kSpec = {
    .n_heads = kHeads, .n_kv_heads = kKvHeads, .head_dim = kHeadDim, .v_head_dim = kHeadDim};

// What tests look at of a plan.
struct CutPlan {
  std::vector<FlashItem> items;
  int64_t scratch_floats;
  int64_t worker_floats;
};

CutPlan Cut(int threads, const std::vector<SequenceRows>& rows) {
  FlashPlan plan(kSpec);
  CutIntoItems({.threads = threads, .block_rows = 6}, rows, plan);
  return {plan.items, plan.scratch_floats, plan.worker_floats};
}

SequenceRows Token(int64_t pos) { return {.start_pos = pos, .n_tokens = 1}; }

// Of the rows of items with keys, each (token, kv head) with each of its splits.
TEST(FlashPlan, CoversEverySplitOfEveryQueryAndHeadOnce) {
  const std::vector<SequenceRows> rows = {
      {.sequence = 0, .start_pos = 0, .n_tokens = 700, .row_begin = 0},
      {.sequence = 1, .start_pos = 5000, .n_tokens = 1, .row_begin = 700},
      {.sequence = 2, .start_pos = 900, .n_tokens = 33, .row_begin = 701}};
  for (const int threads : {1, 2, 3, 8}) {
    const CutPlan plan = Cut(threads, rows);
    std::multiset<std::vector<int64_t>> seen;
    for (const FlashItem& item : plan.items) {
      EXPECT_EQ(item.key_begin % kSplitKeys, 0);
      for (int64_t t = item.query_begin; t < item.query_end; ++t) {
        for (int64_t split = item.key_begin / kSplitKeys; split < SplitsOf(item.key_end); ++split) {
          seen.insert({item.sequence, t, item.kv_head, split});
        }
      }
    }
    for (size_t s = 0; s < rows.size(); ++s) {
      for (int64_t t = 0; t < rows[s].n_tokens; ++t) {
        for (int64_t head = 0; head < kKvHeads; ++head) {
          for (int64_t split = 0; split < SplitsOf(rows[s].start_pos + t + 1); ++split) {
            ASSERT_EQ(seen.count({static_cast<int64_t>(s), t, head, split}), 1U);
          }
        }
      }
    }
  }
}

TEST(FlashPlan, PutsTheLongestItemsFirst) {
  const CutPlan plan = Cut(2, {{.n_tokens = 2048}});
  ASSERT_GE(plan.items.size(), 64U);
  for (size_t i = 1; i < plan.items.size(); ++i) {
    EXPECT_GE(plan.items[i - 1].key_end, plan.items[i].key_end);
  }
}

TEST(FlashPlan, SharesOutTheKeysOfALoneQueryEvenly) {
  const CutPlan plan = Cut(2, {Token(4095)});
  ASSERT_GE(plan.items.size(), 12U);
  for (const FlashItem& item : plan.items) {
    EXPECT_GE(item.partials, 0);
    EXPECT_LE(item.key_end - item.key_begin, 4096 * kKvHeads / 8);
  }
}

TEST(FlashPlan, LeavesKeysTogetherWhereOneThreadOrOneSplitIsAll) {
  for (const CutPlan& plan : {Cut(1, {Token(4095)}), Cut(4, {Token(kSplitKeys - 1)})}) {
    EXPECT_EQ(plan.items.size(), size_t{kKvHeads});
    for (const FlashItem& item : plan.items) EXPECT_EQ(item.partials, -1);
  }
}

TEST(FlashPlan, LeavesTheKeysOfManySequencesTogether) {
  const std::vector<SequenceRows> rows(64, Token(4095));
  EXPECT_EQ(Cut(2, rows).items.size(), rows.size() * kKvHeads);
}

// Partial results lie apart from each other and from what belongs to the workers.
TEST(FlashPlan, GivesPartialResultsAPlaceOfTheirOwn) {
  const CutPlan plan = Cut(2, {Token(4095), Token(1000)});
  std::set<int64_t> places;
  int64_t end = 0;
  for (const FlashItem& item : plan.items) {
    ASSERT_GE(item.partials, 0);
    EXPECT_EQ(item.partials % 16, 0);
    places.insert(item.partials);
  }
  EXPECT_EQ(places.size(), size_t{2 * kKvHeads});
  for (const int64_t place : places) {
    EXPECT_GE(place, end);
    end = place + SharedPartials::Floats(kHeadDim, kHeads / kKvHeads, 4);
  }
  EXPECT_GE(plan.scratch_floats, end + 2 * plan.worker_floats);
}

TEST(FlashPlan, KeepsItsMemoryForTheNextStepAndSaysHowMuchThatIs) {
  FlashPlan plan(kSpec);
  CutIntoItems({.threads = 2, .block_rows = 6}, std::vector<SequenceRows>{{.n_tokens = 2048}},
               plan);
  const FlashItem* const items = plan.items.data();
  const int64_t bytes = plan.bytes;
  EXPECT_GE(bytes, static_cast<int64_t>(plan.items.size() * sizeof(FlashItem)));
  CutIntoItems({.threads = 2, .block_rows = 6}, std::vector<SequenceRows>{Token(2048)}, plan);
  EXPECT_EQ(plan.items.data(), items);
  EXPECT_EQ(plan.bytes, bytes);
}

TEST(FlashPlan, NeedsMoreScratchOnlyWhenASequenceHasDoubled) {
  std::set<int64_t> sizes;
  for (int64_t pos = 1024; pos < 4096; ++pos) sizes.insert(Cut(2, {Token(pos)}).scratch_floats);
  EXPECT_LE(sizes.size(), 2U);
}

}  // namespace
}  // namespace ng
