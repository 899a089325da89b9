// The sums of the attention that tokens got: the same bits however rows come, and none of rows that
// do not stay.
#include "plugins/cache/budget/attended_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "core/machine/executor.h"

namespace ng {
namespace {

constexpr int64_t kLayers = 2;
constexpr int64_t kSumHeads = 3;
constexpr int64_t kSumSlots = 700;  // more than a worker adds up at a time

// Of so many drafts, and of queries before each boundary.
class Sums {
 public:
  Sums(int64_t drafts, int64_t queries, int64_t every, int threads = 1)
      : executor_(MakeExecutor(threads)),
        shape_{.max_sequences = 2,
               .n_layers = kLayers,
               .n_kv_heads = kSumHeads,
               .slots = kSumSlots,
               .drafts = drafts,
               .queries = queries,
               .every = every,
               .sums = 0,
               .log = 2 * kLayers * kSumHeads * 2 * kSumSlots * 8},
        memory_(static_cast<size_t>(shape_.log / 8 + 2 * kLayers * kSumHeads * drafts * kSumSlots)),
        sums(shape_, *executor_, reinterpret_cast<std::byte*>(memory_.data())) {
    // What was there is nobody's.
    std::ranges::fill(memory_, 1e30);
  }

 private:
  const std::unique_ptr<Executor> executor_;
  const AttendedShape shape_;
  std::vector<double> memory_;

 public:
  AttendedSums sums;
};

float Share(int64_t layer, int64_t head, int64_t query, int64_t slot, int64_t salt = 0) {
  if (slot > query) return 0.0F;
  const int64_t mixed = (query * 7919 + slot * 104729 + head * 31 + layer * 17 + salt) * 2654435761;
  return static_cast<float>((mixed >> 8) % 65521) * 1.1e-6F;
}

// Tells of a step, with rows of `salt`; not yet committed.
SequenceRows Tell(AttendedSums& sums, SequenceId sequence, int64_t begin, int64_t n,
                  int64_t salt = 0) {
  SequenceRows rows{.sequence = sequence, .start_pos = begin, .n_tokens = n};
  rows.mass_tokens = sums.Wanted(rows);
  for (int layer = 0; layer < kLayers && rows.mass_tokens > 0; ++layer) {
    std::vector<float> mass;
    for (int64_t query = begin + n - rows.mass_tokens; query < begin + n; ++query) {
      for (int64_t head = 0; head < kSumHeads; ++head) {
        for (int64_t slot = 0; slot < begin + n; ++slot) {
          mass.push_back(Share(layer, head, query, slot, salt));
        }
      }
    }
    EXPECT_TRUE(
        sums.Add(layer, rows, {mass.data(), {rows.mass_tokens, kSumHeads, begin + n}}).ok());
  }
  return rows;
}

// What is expected, added one by one, in this order.
std::vector<float> Plain(int layer, int head, int64_t first, int64_t end) {
  std::vector<float> plain;
  for (int64_t slot = 0; slot < end; ++slot) {
    double sum = 0.0;
    for (int64_t query = first; query < end; ++query) {
      sum += double{Share(layer, head, query, slot)};
    }
    plain.push_back(static_cast<float>(sum));
  }
  return plain;
}

void ExpectPlain(const AttendedSums& sums, const SequenceRows& rows, int64_t first) {
  const int64_t end = rows.start_pos + rows.n_tokens;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int head = 0; head < kSumHeads; ++head) {
      std::vector<float> found(static_cast<size_t>(end));
      sums.Sum(layer, head, rows, found);
      ASSERT_EQ(found, Plain(layer, head, first, end)) << layer << " " << head << " at " << end;
    }
  }
}

TEST(AttendedSums, HaveTheSameBitsHoweverRowsCome) {
  std::mt19937_64 random(5);
  for (const int64_t drafts : {0, 1, 4, 9}) {
    for (const int threads : {1, 3}) {
      Sums of(drafts, 0, 1000, threads);
      for (int64_t at = 0; at < 600;) {
        const int64_t n = random() % 2 == 0 ? 1 + static_cast<int64_t>(random() % 9)
                                            : 1 + static_cast<int64_t>(random() % 150);
        if (random() % 4 == 0) Tell(of.sums, 1, at, 1 + n / 2, 77);  // abandoned
        const SequenceRows rows = Tell(of.sums, 1, at, n);
        if (at > 300) ExpectPlain(of.sums, rows, 0);
        of.sums.Commit(rows);
        at += n;
      }
    }
  }
}

TEST(AttendedSums, CountNothingOfRowsThatDoNotStay) {
  std::mt19937_64 random(6);
  Sums of(5, 0, 1000);
  of.sums.Commit(Tell(of.sums, 0, 0, 100));
  for (int64_t at = 100; at < 300;) {
    const int64_t n_kept = static_cast<int64_t>(random() % 5);
    of.sums.Commit(Tell(of.sums, 0, at, 5, 0));
    if (n_kept < 5) {
      // Drafts that were wrong: other rows than those that come there.
      ASSERT_TRUE(of.sums.CanTruncate(0, at + n_kept));
      of.sums.Truncate(0, at + n_kept);
      of.sums.Commit(Tell(of.sums, 0, at + n_kept, 5 - n_kept, 13));
      ASSERT_TRUE(of.sums.CanTruncate(0, at + n_kept));
      of.sums.Truncate(0, at + n_kept);
    }
    at += n_kept;
    const SequenceRows rows = Tell(of.sums, 0, at, 1);
    ExpectPlain(of.sums, rows, 0);
    of.sums.Commit(rows);
    ++at;
  }
}

TEST(AttendedSums, GoBackToWhereTheLastLongStepBegan) {
  Sums of(2, 0, 1000);
  of.sums.Commit(Tell(of.sums, 0, 0, 40));
  of.sums.Commit(Tell(of.sums, 0, 40, 20, 5));
  EXPECT_FALSE(of.sums.CanTruncate(0, 39));
  EXPECT_FALSE(of.sums.CanTruncate(0, 50));
  EXPECT_TRUE(of.sums.CanTruncate(0, 60));
  ASSERT_TRUE(of.sums.CanTruncate(0, 40));
  of.sums.Truncate(0, 40);
  ExpectPlain(of.sums, Tell(of.sums, 0, 40, 10), 0);
  ASSERT_TRUE(of.sums.CanTruncate(0, 0));
  of.sums.Truncate(0, 0);
  ExpectPlain(of.sums, Tell(of.sums, 0, 0, 10), 0);
}

TEST(AttendedSums, CountTheLastQueriesBeforeABoundaryAlone) {
  std::mt19937_64 random(7);
  for (const int64_t drafts : {0, 6}) {
    Sums of(drafts, 7, 64);
    for (int64_t at = 0; at < 640;) {
      const int64_t n = std::min<int64_t>(1 + static_cast<int64_t>(random() % 30), 64 - at % 64);
      const SequenceRows rows = Tell(of.sums, 0, at, n);
      at += n;
      if (at % 64 == 0) ExpectPlain(of.sums, rows, at - 7);
      of.sums.Commit(rows);
      // Before the first row that counts there is nothing to take away.
      if (at % 64 != 60) continue;
      ASSERT_TRUE(of.sums.CanTruncate(0, at - 10));
      of.sums.Truncate(0, at - 10);
      at -= 10;
    }
  }
  SequenceRows rows{.sequence = 0, .start_pos = 0, .n_tokens = 57};
  Sums of(0, 7, 64);
  EXPECT_EQ(of.sums.Wanted(rows), 0);
  rows.n_tokens = 60;
  EXPECT_EQ(of.sums.Wanted(rows), 3);
}

TEST(AttendedSums, FollowTheSlotsThatStay) {
  for (const int64_t drafts : {0, 8}) {
    Sums of(drafts, 0, 8);
    std::vector<SequenceRows> steps = {Tell(of.sums, 1, 0, 5)};
    of.sums.Commit(steps.back());
    const SequenceRows rows = Tell(of.sums, 1, 5, 3);
    of.sums.Commit(rows);
    of.sums.Settle(rows);
    const std::vector<int32_t> kept = {0, 2, 7};
    for (int layer = 0; layer < kLayers; ++layer) {
      for (int head = 0; head < kSumHeads; ++head) of.sums.Keep(layer, head, 1, kept);
    }
    for (int layer = 0; layer < kLayers; ++layer) of.sums.Left(layer, 1, 3, {});
    of.sums.Copy(1, 0);
    for (const SequenceId sequence : {1, 0}) {
      SequenceRows none = rows;
      none.sequence = sequence;
      std::vector<float> found(5);
      of.sums.Sum(1, 2, none, found);
      const std::vector<float> all = Plain(1, 2, 0, 8);
      EXPECT_EQ(found, (std::vector<float>{all[0], all[2], all[7], 0.0F, 0.0F}));
    }
    EXPECT_FALSE(of.sums.CanTruncate(1, 7));
    EXPECT_TRUE(of.sums.CanTruncate(1, 8));
  }
}

}  // namespace
}  // namespace ng
