// A row of logits narrowed in vector registers gives what a list of candidates gives, on every ISA
// level.
#include "core/sampling/dense_logits.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "ng/candidate_set.h"
#include "tests/support/floats.h"

namespace ng {
namespace {

// Sizes around whole blocks and vectors; flat, peaked, with ties, far apart, with tokens banned.
std::vector<float> AnyRow() {
  const auto n =
      *rc::gen::resize(rc::kNominalSize, rc::gen::oneOf(rc::gen::inRange<int64_t>(1, 200),
                                                        rc::gen::inRange<int64_t>(1000, 12000),
                                                        rc::gen::inRange<int64_t>(16000, 40000)));
  std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
  const float spread = *rc::gen::element(0.01F, 1.0F, 3.0F, 12.0F, 300.0F);
  const float grid = *rc::gen::element(0.0F, 0.25F, 5.0F);
  const float centre = *rc::gen::element(0.0F, -20.0F, 5000.0F);
  const auto banned = *rc::gen::element(0.0, 0.3, 0.999);
  std::normal_distribution<float> normal(centre, spread);
  std::bernoulli_distribution ban(banned);
  std::vector<float> row(n);
  for (float& x : row) {
    x = normal(random);
    if (grid > 0.0F) x = std::round(x / grid) * grid;
    if (ban(random)) x = -kInf;
  }
  row[random() % n] = centre;  // never all banned
  return row;
}

std::vector<Candidate> ListOf(const std::vector<float>& row) {
  std::vector<Candidate> list;
  for (const float x : row) list.push_back({static_cast<int32_t>(list.size()), x});
  return list;
}

// What can be drawn of a set, as ids in rising order.
std::vector<int32_t> Drawable(CandidateSet& set) {
  std::vector<int32_t> ids;
  for (const Candidate& c : set.items()) {
    if (c.logit > -kInf) ids.push_back(c.id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

// Calls check(a set over the row) for every level of this CPU.
template <class Check>
void OnEveryLevel(const std::vector<float>& row, Check check) {
  for (const IsaLevel isa : SupportedIsaLevels()) {
    CandidateStorage storage(static_cast<int64_t>(row.size()), isa);
    CandidateSet set = storage.Begin(row);
    check(set, storage.logits());
  }
}

RC_GTEST_PROP(DenseLogits, KeepTopKeepsWhatAListKeeps, ()) {
  const std::vector<float> row = AnyRow();
  const auto k = *rc::gen::inRange<int64_t>(1, static_cast<int64_t>(row.size()) + 1);
  std::vector<Candidate> list = ListOf(row);
  CandidateSet listed(list);
  listed.KeepTop(k);
  OnEveryLevel(row, [&](CandidateSet& set, DenseLogits&) {
    set.KeepTop(k);
    RC_ASSERT(set.size() == listed.size());
    for (int64_t i = 0; i < set.size(); ++i) RC_ASSERT(set.items()[i].id == listed.items()[i].id);
  });
}

RC_GTEST_PROP(DenseLogits, KeepAtLeastKeepsWhatAListKeeps, ()) {
  const std::vector<float> row = AnyRow();
  const float max = *std::max_element(row.begin(), row.end());
  const double below = *rc::gen::element(0.0, 0.1, 2.0, 10.0, 1000.0);
  std::vector<Candidate> list = ListOf(row);
  CandidateSet listed(list);
  listed.KeepAtLeast(max - below);
  const std::vector<int32_t> expected = Drawable(listed);
  OnEveryLevel(row, [&](CandidateSet& set, DenseLogits&) {
    set.KeepAtLeast(max - below);
    RC_ASSERT(set.size() == listed.size());
    RC_ASSERT(Drawable(set) == expected);
  });
}

// A mask of about this share of the tokens; and a second one of what is left.
RC_GTEST_PROP(DenseLogits, MaskKeepsWhatAListKeeps, ()) {
  const std::vector<float> row = AnyRow();
  const double share = *rc::gen::element(0.0, 0.001, 0.1, 0.9, 1.0);
  const bool by_ids = *rc::gen::arbitrary<bool>();
  const bool weighed = *rc::gen::arbitrary<bool>();  // before: weights are kept
  std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
  std::bernoulli_distribution marked(share);
  std::vector<uint64_t> masks[2];
  std::vector<int32_t> ids[2];
  for (int time = 0; time < 2; ++time) {
    masks[time].resize((row.size() + 63) / 64);
    for (size_t id = 0; id < row.size(); ++id) {
      if (!marked(random)) continue;
      masks[time][id / 64] |= uint64_t{1} << (id % 64);
      ids[time].push_back(static_cast<int32_t>(id));
    }
    if (row.size() % 64 != 0) masks[time].back() |= ~uint64_t{0} << (row.size() % 64);
  }
  const auto narrow = [&](CandidateSet& set, int time) {
    if (by_ids) return set.KeepIds(ids[time]);
    set.Mask(masks[time]);
  };
  std::vector<Candidate> list = ListOf(row);
  CandidateSet listed(list);
  std::vector<int32_t> expected[2];
  for (int time = 0; time < 2; ++time) {
    narrow(listed, time);
    expected[time] = Drawable(listed);
  }
  OnEveryLevel(row, [&](CandidateSet& set, DenseLogits& logits) {
    if (weighed) RC_ASSERT(set.LogTotal().ok());
    for (int time = 0; time < 2; ++time) {
      narrow(set, time);
      RC_ASSERT(set.dense() == (set.size() == static_cast<int64_t>(row.size())));
      RC_ASSERT(set.size() >= static_cast<int64_t>(expected[time].size()));
      RC_ASSERT(set.MaxLogit().ok() == !expected[time].empty());
      if (set.listed() || expected[time].empty()) continue;
      RC_ASSERT(
          *set.MaxLogit() ==
          row[*std::ranges::max_element(expected[time], {}, [&](int32_t id) { return row[id]; })]);
      const int32_t drawn = logits.Draw(0.7);
      RC_ASSERT(std::ranges::binary_search(expected[time], drawn));
      const auto share_to = [&](int32_t end) {
        double mass = 0.0;
        double total = 0.0;
        for (const int32_t id : expected[time]) {
          const double weight = std::exp(static_cast<double>(row[id]) - *set.MaxLogit());
          total += weight;
          if (id < end) mass += weight;
        }
        return mass / total;
      };
      RC_ASSERT(share_to(drawn) <= 0.70001);
      RC_ASSERT(share_to(drawn + 1) >= 0.69999);
    }
    RC_ASSERT(Drawable(set) == expected[1]);
  });
}

TEST(DenseLogits, AMaskOfManyTokensListsNone) {
  const std::vector<float> row(6400, 1.0F);
  std::vector<uint64_t> bits(100, 0x5555555555555555);
  OnEveryLevel(row, [&](CandidateSet& set, DenseLogits&) {
    set.Mask(bits);
    EXPECT_FALSE(set.listed());
    EXPECT_FALSE(set.dense());
    EXPECT_EQ(set.size(), 3200);
    std::vector<Candidate> copy(3200);
    EXPECT_EQ(set.CopyTo(copy), 3200);
    EXPECT_EQ(copy[1].id, 2);
    EXPECT_FALSE(set.listed());
  });
}

// The fewest first ones of the sorted order that reach p, up to the rounding of f32 weights; and
// twice in a row narrows what is left.
RC_GTEST_PROP(DenseLogits, KeepMassKeepsTheFewestThatReachTheShare, ()) {
  const std::vector<float> row = AnyRow();
  const double p = *rc::gen::element(0.01, 0.3, 0.9, 0.95, 0.999, 0.9999999);
  constexpr double kRounding = 4e-6;
  std::vector<Candidate> order = ListOf(row);
  std::stable_sort(order.begin(), order.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  std::vector<double> mass;  // of the first i + 1
  for (const Candidate& c : order) {
    const double weight = std::exp(static_cast<double>(c.logit) - order[0].logit);
    mass.push_back(mass.empty() ? weight : mass.back() + weight);
  }
  OnEveryLevel(row, [&](CandidateSet& set, DenseLogits&) {
    double total = mass.back();
    for (int time = 0; time < 2; ++time) {
      set.KeepMass(p);
      const int64_t n = set.size();
      RC_ASSERT(n >= 1);
      RC_ASSERT(mass[n - 1] >= (p - kRounding) * total);
      // In parentheses: RC_ASSERT takes || apart and evaluates both sides.
      RC_ASSERT((n == 1 || mass[n - 2] < (p + kRounding) * total));
      total = mass[n - 1];
    }
    const std::vector<int32_t> ids = Drawable(set);
    std::vector<int32_t> expected;
    for (int64_t i = 0; i < set.size(); ++i) {
      if (order[i].logit > -kInf) expected.push_back(order[i].id);
    }
    std::sort(expected.begin(), expected.end());
    RC_ASSERT(ids == expected);
  });
}

// The fewest nearest ones that reach p, up to the rounding of f32 weights, and the same as of a
// list but for the last of them.
void ExpectTheNearest(const std::vector<float>& row, float centre, double p) {
  const float max = *std::max_element(row.begin(), row.end());
  constexpr double kRounding = 4e-6;
  std::vector<Candidate> order = ListOf(row);
  std::stable_sort(order.begin(), order.end(), [&](const Candidate& a, const Candidate& b) {
    return std::abs(a.logit - centre) < std::abs(b.logit - centre);
  });
  std::vector<double> mass;  // of the first i + 1
  for (const Candidate& c : order) {
    const double weight = std::exp(static_cast<double>(c.logit) - max);
    mass.push_back(mass.empty() ? weight : mass.back() + weight);
  }
  OnEveryLevel(row, [&](CandidateSet& set, DenseLogits&) {
    set.KeepNear(centre, p);
    const int64_t n = set.size();
    ASSERT_GE(n, 1);
    EXPECT_GE(mass[n - 1], (p - kRounding) * mass.back());
    if (n > 1) {
      EXPECT_LT(mass[n - 2], (p + kRounding) * mass.back());
    }
    std::vector<int32_t> expected;
    for (int64_t i = 0; i < n; ++i) expected.push_back(order[i].id);
    std::sort(expected.begin(), expected.end());
    EXPECT_TRUE(Drawable(set) == expected);
  });
}

RC_GTEST_PROP(DenseLogits, KeepNearKeepsTheFewestThatReachTheShare, ()) {
  const std::vector<float> row = AnyRow();
  const double p = *rc::gen::element(0.01, 0.3, 0.9, 0.95, 0.999);
  const float max = *std::max_element(row.begin(), row.end());
  const float centre = max - *rc::gen::element(0.0F, 0.5F, 2.0F, 7.0F, 30.0F, -3.0F);
  ExpectTheNearest(row, centre, p);
  RC_ASSERT(!::testing::Test::HasFailure());
}

// What is kept does not depend on a guess: the blocks of which a sample is made are unlike the
// others, or the few heavy tokens are the farthest or the nearest.
TEST(DenseLogits, KeepNearKeepsTheNearestWhateverASampleTells) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  for (const float sampled : {-9.0F, 2.0F}) {
    for (const float heavy : {0.0F, 12.0F}) {
      std::vector<float> row(20000);  // a sample is taken of so many
      for (size_t id = 0; id < row.size(); ++id) {
        row[id] = normal(random) + (id / 64 % 16 == 0 ? sampled : 0.0F);
      }
      for (size_t i = 0; i < 30; ++i) row[random() % row.size()] += heavy;
      for (const double p : {0.5, 0.95}) {
        for (const float centre : {-1.0F, 6.0F}) ExpectTheNearest(row, centre, p);
      }
    }
  }
}

// As many as a list keeps, which adds the weights one by one; of others left out, too.
TEST(DenseLogits, KeepNearOfEqualLogitsKeepsTheLowestIds) {
  for (const size_t n : {3, 64, 1000, 20000}) {
    for (const double p : {0.001, 0.1, 0.3, 0.5, 0.7, 0.95, 0.999999}) {
      for (const int others : {0, 2}) {
        std::vector<float> row(n + others, 1.0F);
        for (int i = 0; i < others; ++i) row[i * n] = -4.0F;
        std::vector<Candidate> list = ListOf(row);
        CandidateSet listed(list);
        listed.KeepNear(1.0, p);
        const std::vector<int32_t> expected = Drawable(listed);
        OnEveryLevel(row, [&](CandidateSet& set, DenseLogits&) {
          set.KeepNear(1.0, p);
          EXPECT_NEAR(set.size(), listed.size(), others == 0 ? 0 : 1) << n << " " << p;
          const std::vector<int32_t> ids = Drawable(set);
          EXPECT_TRUE(std::equal(ids.begin(), ids.begin() + std::min(ids.size(), expected.size()),
                                 expected.begin()));
        });
      }
    }
  }
}

// The weights may be there already, or are made in the same pass.
RC_GTEST_PROP(DenseLogits, MeanDrawnHasTheSameBitsBeforeAndAfterOtherFigures, ()) {
  const std::vector<float> row = AnyRow();
  OnEveryLevel(row, [&](CandidateSet& set, DenseLogits& logits) {
    const double first = *set.MeanDrawn();
    const double total = *set.LogTotal();
    logits.Begin(row);
    RC_ASSERT(*set.LogTotal() == total);
    RC_ASSERT(*set.MeanDrawn() == first);
  });
}

RC_GTEST_PROP(DenseLogits, FiguresAreThoseOfAList, ()) {
  const std::vector<float> row = AnyRow();
  std::vector<Candidate> list = ListOf(row);
  const CandidateSet listed(list);
  const double bar = *listed.MaxLogit() - *rc::gen::element(0.0, 1.0, 5.0);
  std::vector<Candidate> expected(row.size());
  const int64_t n = listed.CopyAtLeast(bar, expected);
  OnEveryLevel(row, [&](CandidateSet& set, DenseLogits&) {
    const auto near = [](double a, double b) {
      return std::abs(a - b) <= 1e-5 * (1 + std::abs(b));
    };
    RC_ASSERT(near(*set.LogTotal(), *listed.LogTotal()));
    RC_ASSERT(near(*set.MeanDrawn(), *listed.MeanDrawn()));
    RC_ASSERT(near(*set.Deviation(), *listed.Deviation()));
    std::vector<Candidate> copy(row.size());
    RC_ASSERT(set.CopyAtLeast(bar, copy) == n);
    for (int64_t i = 0; i < n; ++i) RC_ASSERT(copy[i].id == expected[i].id);
    RC_ASSERT(set.CopyAtLeast(bar, std::span(copy).first(0)) == n);
    RC_ASSERT(!set.listed());
  });
}

// Walked in rising order of id.
RC_GTEST_PROP(DenseLogits, DrawInvertsTheCumulativeSoftmax, ()) {
  const std::vector<float> row = AnyRow();
  const double uniform = *rc::gen::element(0.0, 0.2, 0.5, 0.77, 0.999999999);
  const float max = *std::max_element(row.begin(), row.end());
  std::vector<double> cumulative;
  for (const float x : row) {
    cumulative.push_back((cumulative.empty() ? 0.0 : cumulative.back()) +
                         std::exp(static_cast<double>(x) - max));
  }
  OnEveryLevel(row, [&](CandidateSet&, DenseLogits& logits) {
    const int32_t drawn = logits.Draw(uniform);
    const double target = uniform * cumulative.back();
    const double slack = 1e-6 * cumulative.back();
    RC_ASSERT(row[drawn] > -kInf);
    RC_ASSERT(cumulative[drawn] >= target - slack);
    RC_ASSERT((drawn == 0 || cumulative[drawn - 1] <= target + slack));
  });
}

RC_GTEST_PROP(DenseLogits, DrawsOnlyFromWhatIsLeft, ()) {
  const std::vector<float> row = AnyRow();
  OnEveryLevel(row, [&](CandidateSet& set, DenseLogits& logits) {
    set.KeepMass(0.9);
    if (set.listed()) return;
    std::vector<int32_t> drawn;
    for (const double uniform : {0.0, 0.3, 0.6, 0.9999}) drawn.push_back(logits.Draw(uniform));
    const std::vector<int32_t> left = Drawable(set);
    for (const int32_t id : drawn) {
      RC_ASSERT(std::binary_search(left.begin(), left.end(), id));
    }
  });
}

// The row of what KeepNear leaves is made only when somebody asks: whatever asks first sees it.
TEST(DenseLogits, WhoeverAsksFirstSeesWhatKeepNearLeft) {
  const auto draw = [](CandidateSet&, DenseLogits& l) { l.Draw(0.7); };
  using Ask = void (*)(CandidateSet&, DenseLogits&);
  const std::vector<Ask> asks = {
      draw,
      [](CandidateSet& s, DenseLogits&) { s.DivideBy(0.5F); },
      [](CandidateSet& s, DenseLogits&) { s.SortByLogit(); },
      [](CandidateSet& s, DenseLogits&) { s.KeepTop(5); },
      [](CandidateSet& s, DenseLogits&) { s.KeepAtLeast(0.5); },
      [](CandidateSet& s, DenseLogits&) { s.KeepMass(0.5); },
      [](CandidateSet& s, DenseLogits&) { s.KeepNear(0.1, 0.5); },
      [](CandidateSet& s, DenseLogits&) {
        s.KeepIds(std::vector<int32_t>{1, 5, 6, 7, 900});
      },
      [](CandidateSet& s, DenseLogits&) {
        s.Mask(std::vector<uint64_t>(4000 / 64 + 1, 0xF0F0F0F0F0F0F0F0U));
      },
  };
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0.0F, 0.5F);
  std::vector<float> row(4000);
  for (float& x : row) x = normal(random);
  for (size_t i = 0; i < asks.size(); ++i) {
    OnEveryLevel(row, [&](CandidateSet& set, DenseLogits& logits) {
      CandidateStorage other(static_cast<int64_t>(row.size()));
      CandidateSet listed = other.Begin(row);
      ASSERT_FALSE(listed.items().empty());
      for (CandidateSet* of : {&set, &listed}) of->KeepNear(0.1, 0.9);
      ASSERT_FALSE(set.listed());
      EXPECT_EQ(set.size(), listed.size());
      asks[i](set, logits);
      if (asks[i] != asks[0]) asks[i](listed, other.logits());
      std::vector<Candidate> copy(row.size());
      copy.resize(static_cast<size_t>(set.CopyTo(copy)));
      std::erase_if(copy, [](const Candidate& c) { return c.logit == -kInf; });
      EXPECT_NEAR(set.MeanDrawn().value(), listed.MeanDrawn().value(), 1e-5) << i;
      EXPECT_EQ(set.MaxLogit().value(), listed.MaxLogit().value()) << i;
      EXPECT_EQ(Drawable(set), Drawable(listed)) << i;
      EXPECT_EQ(std::ssize(copy), std::ssize(Drawable(set))) << i;
    });
  }
}

TEST(DenseLogits, CopyAtLeastCountsWhatDoesNotFit) {
  std::vector<float> row(20000, -1.0F);
  for (const size_t hot : {size_t{7}, size_t{8}, size_t{19999}}) row[hot] = 2.0F;
  OnEveryLevel(row, [&](CandidateSet& set, DenseLogits&) {
    for (const double bar : {1.0, 2.0, -1.0}) {  // few of the blocks, or all
      std::vector<Candidate> two(2);
      EXPECT_EQ(set.CopyAtLeast(bar, two), bar < 0.0 ? 20000 : 3);
      EXPECT_EQ(two[1].id, bar < 0.0 ? 1 : 8);
    }
    EXPECT_EQ(set.CopyAtLeast(2.5, {}), 0);
  });
}

TEST(DenseLogits, SaysWhenNothingCanBeDrawn) {
  for (const float bad : {kInf, std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t place : {size_t{0}, size_t{63}, size_t{64}, size_t{99}}) {
      std::vector<float> row(100, 1.0F);
      row[place] = bad;
      OnEveryLevel(row, [](CandidateSet& set, DenseLogits& logits) {
        EXPECT_FALSE(logits.Max().has_value());
        EXPECT_FALSE(set.MaxLogit().ok());
      });
    }
  }
  OnEveryLevel(std::vector<float>(100, -kInf), [](CandidateSet& set, DenseLogits& logits) {
    EXPECT_FALSE(logits.Max().has_value());
    EXPECT_FALSE(set.MaxLogit().ok());
  });
}

TEST(DenseLogits, ChangesACopyOfTheRow) {
  const std::vector<float> row = {1.0F, 2.0F, 3.0F};
  OnEveryLevel(row, [&](CandidateSet& set, DenseLogits&) {
    set.LogitOf(1) = 8.0F;
    set.DivideBy(2.0F);
    EXPECT_EQ(*set.MaxLogit(), 4.0F);
    EXPECT_TRUE(set.dense());
    EXPECT_EQ(set.items()[0].logit, 0.5F);
    EXPECT_EQ(set.items()[1].logit, 4.0F);
    EXPECT_EQ(row[1], 2.0F);
  });
}

}  // namespace
}  // namespace ng
