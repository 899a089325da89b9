// The sums of queries: the same bits however rows come, and none of rows that do not stay.
#include "plugins/cache/budget/query_sums.h"

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

constexpr int64_t kQueryLayers = 2;
constexpr int64_t kQueryDim = 11;  // some in lanes and some behind them

class SumsOfQueries {
 public:
  SumsOfQueries(int64_t first, bool at_mark, int threads = 1, IsaLevel isa = IsaLevel::kScalar)
      : executor_(MakeExecutor(threads)),
        shape_{.max_sequences = 2,
               .n_layers = kQueryLayers,
               .n_heads = 4,
               .n_kv_heads = 2,
               .head_dim = kQueryDim,
               .first = first,
               .at_mark = at_mark,
               .log_rows = 5},
        memory_(
            static_cast<size_t>(2 * kQueryLayers * (2 * 4 * shape_.sums() + 5 * 4 * kQueryDim))) {
    shape_.log = 2 * kQueryLayers * 2 * 4 * shape_.sums() * 8;
    // What was there is nobody's.
    std::ranges::fill(memory_, 1e30);
    sums = std::make_unique<QuerySums>(shape_, *executor_, isa,
                                       reinterpret_cast<std::byte*>(memory_.data()));
  }

 private:
  const std::unique_ptr<Executor> executor_;
  QueryShape shape_;
  std::vector<double> memory_;

 public:
  std::unique_ptr<QuerySums> sums;
};

float Query(int64_t layer, int64_t position, int64_t head, int64_t d, int64_t salt) {
  const int64_t mixed = (position * 7919 + head * 104729 + d * 31 + layer * 17 + salt) * 2654435761;
  return static_cast<float>((mixed >> 8) % 65521) * 1.1e-4F - 3.0F;
}

// Tells of a step, of layers with so many heads; not yet committed.
SequenceRows TellOfQueries(QuerySums& sums, SequenceId sequence, int64_t begin, int64_t n,
                           int64_t salt = 0) {
  // Another sequence's row comes before it.
  const SequenceRows rows{.sequence = sequence, .start_pos = begin, .n_tokens = n, .row_begin = 1};
  for (int layer = 0; layer < kQueryLayers; ++layer) {
    const int64_t n_heads = layer == 0 ? 4 : 2;
    std::vector<float> q(static_cast<size_t>(n_heads * kQueryDim), 1e30F);
    for (int64_t i = 0; i < n * n_heads * kQueryDim; ++i) {
      q.push_back(Query(layer, begin + i / kQueryDim / n_heads, i / kQueryDim % n_heads,
                        i % kQueryDim, salt));
    }
    EXPECT_TRUE(sums.Add(layer, rows, {q.data(), {n + 1, n_heads, kQueryDim}}).ok());
  }
  return rows;
}

std::vector<double> StatisticsOf(const QuerySums& sums, int layer, int kv_head,
                                 const SequenceRows& rows, int64_t* n_queries = nullptr) {
  const int64_t n_heads = layer == 0 ? 2 : 1;
  std::vector<double> memory(static_cast<size_t>(QuerySums::StatisticsSize(n_heads, kQueryDim)));
  const QueryStatistics found = sums.Of(layer, kv_head, rows, memory);
  EXPECT_EQ(found.n_heads(), n_heads);
  if (n_queries != nullptr) *n_queries = found.n_queries;
  return memory;
}

// The same by its definition.
std::vector<double> PlainStatistics(int layer, int kv_head, int64_t first, int64_t end) {
  const int64_t n_heads = layer == 0 ? 2 : 1;
  std::vector<double> means;
  std::vector<double> all;
  const auto share = 1.0 / static_cast<double>(end - first);
  for (int64_t head = kv_head * n_heads; head < (kv_head + 1) * n_heads; ++head) {
    const size_t begin = means.size();
    for (int64_t d = 0; d < kQueryDim; ++d) {
      double sum = 0.0;
      for (int64_t p = first; p < end; ++p) sum += double{Query(layer, p, head, d, 0)};
      means.push_back(sum * share);
    }
    for (int64_t i = 0; i < kQueryDim * kQueryDim; ++i) {
      double sum = 0.0;
      for (int64_t p = first; p < end; ++p) {
        const auto off = [&](int64_t d) {
          return double{Query(layer, p, head, d, 0)} - means[begin + static_cast<size_t>(d)];
        };
        sum += off(i / kQueryDim) * off(i % kQueryDim);
      }
      all.push_back(sum * share);
    }
  }
  means.insert(means.end(), all.begin(), all.end());
  return means;
}

void ExpectSameStatistics(const std::vector<double>& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-11) << i;
}

TEST(QuerySums, AreTheMeanAndTheCovariance) {
  SumsOfQueries made(3, /*at_mark=*/false, 3);
  const SequenceRows rows = TellOfQueries(*made.sums, 1, 0, 200);
  int64_t n_queries = 0;
  for (int layer = 0; layer < kQueryLayers; ++layer) {
    for (int kv_head = 0; kv_head < 2; ++kv_head) {
      ExpectSameStatistics(StatisticsOf(*made.sums, layer, kv_head, rows, &n_queries),
                           PlainStatistics(layer, kv_head, 3, 200));
    }
  }
  EXPECT_EQ(n_queries, 197);
}

TEST(QuerySums, OfNoQueryThatCountsAreZero) {
  SumsOfQueries made(9, /*at_mark=*/false);
  int64_t n_queries = -1;
  const std::vector<double> found =
      StatisticsOf(*made.sums, 0, 0, TellOfQueries(*made.sums, 0, 0, 7), &n_queries);
  EXPECT_EQ(n_queries, 0);
  EXPECT_EQ(found, std::vector<double>(found.size(), 0.0));
}

// Steps of any size on any level, some of which are abandoned or in part taken away, and forks.
TEST(QuerySums, HaveOneSetOfBitsHoweverRowsCome) {
  std::mt19937_64 random(3);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  for (int round = 0; round < 40; ++round) {
    SumsOfQueries whole(2, /*at_mark=*/false);
    const auto levels = SupportedIsaLevels();
    SumsOfQueries other(2, /*at_mark=*/false, 3,
                        levels[static_cast<size_t>(round) % levels.size()]);
    SequenceId at = 0;
    int64_t length = 0;
    for (int step = 0; step < 30; ++step) {
      if (below(3) == 0) TellOfQueries(*other.sums, at, length, 1 + below(12), 99);  // abandoned
      if (below(8) == 0) {
        other.sums->Copy(at, 1 - at);
        other.sums->Forget(at);
        at = 1 - at;
      }
      const int64_t n = below(3) == 0 ? 6 + below(20) : 1 + below(5);
      // Of a small step the last rows were wrong.
      const int64_t wrong = n <= 5 ? below(n) : 0;
      SequenceRows rows = TellOfQueries(*other.sums, at, length, n - wrong);
      if (wrong > 0) {
        other.sums->Commit(rows);
        other.sums->Commit(TellOfQueries(*other.sums, at, length + n - wrong, wrong, 99));
        ASSERT_TRUE(other.sums->CanTruncate(at, length + n - wrong));
        other.sums->Truncate(at, length + n - wrong);
        rows = TellOfQueries(*other.sums, at, length + n - wrong, wrong);
      }
      length += n;
      whole.sums->Forget(0);
      const SequenceRows all = TellOfQueries(*whole.sums, 0, 0, length);
      for (int layer = 0; layer < kQueryLayers; ++layer) {
        ASSERT_EQ(StatisticsOf(*other.sums, layer, 1, rows),
                  StatisticsOf(*whole.sums, layer, 1, all))
            << length;
      }
      other.sums->Commit(rows);
    }
  }
}

TEST(QuerySums, GoBackToWhereTheLastLongStepBegan) {
  SumsOfQueries made(0, /*at_mark=*/false);
  made.sums->Commit(TellOfQueries(*made.sums, 0, 0, 8));
  made.sums->Commit(TellOfQueries(*made.sums, 0, 8, 20, 99));
  EXPECT_FALSE(made.sums->CanTruncate(0, 7));
  EXPECT_FALSE(made.sums->CanTruncate(0, 9));
  ASSERT_TRUE(made.sums->CanTruncate(0, 8));
  made.sums->Truncate(0, 8);
  EXPECT_FALSE(made.sums->CanTruncate(0, 0));  // that is Forget
  ExpectSameStatistics(StatisticsOf(*made.sums, 0, 1, TellOfQueries(*made.sums, 0, 8, 30)),
                       PlainStatistics(0, 1, 0, 38));
}

TEST(QuerySums, BehindTheMarkDoNotCount) {
  SumsOfQueries made(1, /*at_mark=*/true);
  made.sums->SetMark(0, 12);
  made.sums->Commit(TellOfQueries(*made.sums, 0, 0, 9));
  made.sums->Commit(TellOfQueries(*made.sums, 0, 9, 3));
  const SequenceRows question = TellOfQueries(*made.sums, 0, 12, 7, 99);
  int64_t n_queries = 0;
  ExpectSameStatistics(StatisticsOf(*made.sums, 1, 1, question, &n_queries),
                       PlainStatistics(1, 1, 1, 12));
  EXPECT_EQ(n_queries, 11);
}

}  // namespace
}  // namespace ng
