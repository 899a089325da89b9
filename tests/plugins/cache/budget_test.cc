// The cache with a budget: what stays, what it reads as, and where there is no way back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/machine/executor.h"
#include "ng/conform/cache.h"
#include "ng/conform/plain_tiles.h"
#include "plugins/attention/flash/flash_attention.h"
#include "plugins/attention/reference/reference_attention.h"
#include "plugins/cache/budget/budget_store.h"
#include "plugins/cache/contiguous/contiguous_store.h"
#include "plugins/policy/expected_attention/expected_attention.h"
#include "plugins/policy/keydiff/keydiff.h"
#include "plugins/policy/knorm/knorm.h"
#include "plugins/policy/random/random.h"
#include "plugins/policy/snapkv/snapkv.h"
#include "plugins/policy/tova/tova.h"
#include "plugins/policy/window/window.h"
#include "tests/plugins/cache/make_budget.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kBudgetLayouts[] = {kLayoutTiles16};

CacheSpec BudgetSpec(Codec codec = Codec::kF32) {
  return {.n_layers = 2,
          .n_kv_heads = 2,
          .head_dim = 5,
          .max_tokens = 100,
          .max_sequences = 2,
          .codec_k = codec,
          .codec_v = codec,
          .layouts = kBudgetLayouts};
}

BudgetOptions BudgetOf(int64_t tokens, int64_t every) {
  return {.policy = "mine", .tokens = tokens, .sinks = 1, .recent = 2, .every = every};
}

// Scores tokens by what it is told of each position; the same in every layer and head but for the
// sign.
class Told final : public Policy {
 public:
  explicit Told(std::vector<float> scores) : scores_(std::move(scores)) {}
  absl::Status Score(const HeldTokens& tokens, std::span<float> scores) const override {
    for (size_t i = 0; i < scores.size(); ++i) {
      const auto position = static_cast<size_t>(tokens.positions[i]);
      scores[i] = tokens.kv_head == 0 ? scores_.at(position) : -scores_.at(position);
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<float> scores_;
};

// Needs what no store gives.
class Wishes final : public Policy {
 public:
  std::span<const std::string_view> needs() const override { return {&kNeedQueries, 1}; }
  absl::Status Score(const HeldTokens&, std::span<float>) const override {
    return absl::OkStatus();
  }
};

// Fails at its second turn.
class Fails final : public Policy {
 public:
  absl::Status Score(const HeldTokens& tokens, std::span<float> scores) const override {
    std::ranges::fill(scores, 0.0F);
    return tokens.length > 12 ? RuntimeError("no more") : absl::OkStatus();
  }
};

class BudgetStoreTest : public ::testing::Test {
 protected:
  BudgetStoreTest() { context_.executor = executor_.get(); }

  std::unique_ptr<CacheStore> Make(const CacheSpec& spec, const BudgetOptions& options,
                                   std::unique_ptr<Policy> policy) {
    auto store = test::MakeBudget(context_, spec, options, std::move(policy));
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  // Token t has rows of t, t + 0.25, ... in every layer and head.
  static absl::Status Feed(CacheStore& store, SequenceId id, int64_t n_tokens) {
    const CacheSpec spec = BudgetSpec();
    while (n_tokens > 0) {
      const int64_t begin = store.Length(id);
      const int64_t n = std::min(n_tokens, store.plan().ToBoundary(begin));
      std::vector<float> rows;
      for (int64_t i = 0; i < n * spec.n_kv_heads * spec.head_dim; ++i) {
        const int64_t width = int64_t{spec.n_kv_heads} * spec.head_dim;
        rows.push_back(static_cast<float>(begin + i / width) +
                       0.25F * static_cast<float>(i % width));
      }
      const TensorView<const float, 3> view(rows.data(), {n, spec.n_kv_heads, spec.head_dim});
      const SequenceRows entry{.sequence = id, .start_pos = begin, .n_tokens = n};
      for (int layer = 0; layer < spec.n_layers; ++layer) {
        NG_RETURN_IF_ERROR(store.Append(layer, {&entry, 1}, view, view));
      }
      NG_RETURN_IF_ERROR(store.Commit({&entry, 1}));
      n_tokens -= n;
    }
    return absl::OkStatus();
  }

  static std::vector<int64_t> HeldBy(const CacheStore& store, SequenceId id, int kv_head,
                                     int layer = 0) {
    std::vector<int64_t> held;
    const KvView view = store.View(layer, id, store.Length(id));
    for (int64_t slot = 0; slot < view.n_slots(); ++slot) {
      held.push_back(view.TokenAt(kv_head, slot));
    }
    return held;
  }

  std::unique_ptr<Executor> executor_ = MakeExecutor(2);
  PluginContext context_;
};

std::vector<float> TokenScores(int64_t n, std::initializer_list<int64_t> high) {
  std::vector<float> scores(static_cast<size_t>(n));
  for (const int64_t position : high) scores[static_cast<size_t>(position)] = 1.0F;
  return scores;
}

TEST_F(BudgetStoreTest, EveryHeadKeepsWhatItsScoresSay) {
  const auto store =
      Make(BudgetSpec(), BudgetOf(6, 10), std::make_unique<Told>(TokenScores(100, {3, 5})));
  const SequenceId id = store->Open(100).value();
  ASSERT_TRUE(Feed(*store, id, 9).ok());
  EXPECT_EQ(HeldBy(*store, id, 0).size(), 9U);  // until the boundary all is held
  ASSERT_TRUE(Feed(*store, id, 1).ok());
  // One sink, two newest, and three by score; of equal scores the lower position.
  EXPECT_THAT(HeldBy(*store, id, 0), ElementsAre(0, 1, 3, 5, 8, 9));
  EXPECT_THAT(HeldBy(*store, id, 1), ElementsAre(0, 1, 2, 4, 8, 9));
  EXPECT_THAT(HeldBy(*store, id, 1, 1), ElementsAre(0, 1, 2, 4, 8, 9));
  ASSERT_TRUE(Feed(*store, id, 11).ok());
  EXPECT_THAT(HeldBy(*store, id, 0), ElementsAre(0, 1, 3, 5, 18, 19, 20));
}

TEST_F(BudgetStoreTest, HeadsOfALayerMayKeepTheSame) {
  BudgetOptions options = BudgetOf(6, 10);
  options.per_head = false;
  const auto store = Make(BudgetSpec(), options, std::make_unique<Told>(TokenScores(100, {3, 5})));
  const SequenceId id = store->Open(100).value();
  ASSERT_TRUE(Feed(*store, id, 10).ok());
  for (const int head : {0, 1}) {  // their scores add to 0
    EXPECT_THAT(HeldBy(*store, id, head), ElementsAre(0, 1, 2, 3, 8, 9));
  }
}

TEST_F(BudgetStoreTest, WhatStaysKeepsItsBitsInEveryCodec) {
  for (const CodecInfo& codec : kCodecTable) {
    const CacheSpec spec = BudgetSpec(codec.codec);
    const auto store =
        Make(spec, BudgetOf(6, 10), std::make_unique<Told>(TokenScores(100, {3, 5, 17, 29})));
    const SequenceId id = store->Open(100).value();
    ASSERT_TRUE(Feed(*store, id, 43).ok());
    const KvView view = store->View(1, id, 43);
    EXPECT_EQ(view.gone, 34);
    for (int head = 0; head < 2; ++head) {
      for (const int64_t token : HeldBy(*store, id, head)) {
        std::vector<float> want;
        for (int d = 0; d < 5; ++d) {
          want.push_back(static_cast<float>(token) + 0.25F * static_cast<float>(head * 5 + d));
        }
        conform::RoundToCodec(codec.codec, 5, want.data());
        for (const KvPart part : {KvPart::kKey, KvPart::kValue}) {
          std::vector<float> row(5);
          store->CopyRow(part, view, token, head, row.data());
          EXPECT_EQ(row, want) << codec.name << ", token " << token;
        }
      }
    }
  }
}

TEST_F(BudgetStoreTest, HoldsNoMoreThanItsPlanSays) {
  const auto store =
      Make(BudgetSpec(), BudgetOf(20, 16), std::make_unique<Told>(TokenScores(100, {})));
  const CachePlan plan = store->plan();
  EXPECT_EQ(plan.slots, 36);
  EXPECT_EQ(plan.boundary_tokens, 16);
  EXPECT_FALSE(plan.approximate);
  // 2 sequences x 2 layers x (K + V) x 2 heads x 3 tiles x 16 tokens x 5 x 4 bytes, then positions
  // and what is chosen, and for each layer positions and order of a head and scores of both.
  const int64_t tiles = 2 * 2 * 2 * 2 * 3 * 16 * 5 * 4;
  EXPECT_GE(plan.bytes, tiles + 2 * 2 * 2 * 2 * 20 * 4 + 2 * (2 + 2) * 36 * 4);
  EXPECT_LT(plan.bytes, tiles + 2 * 2 * 2 * 2 * 20 * 4 + 2 * (2 + 2) * 36 * 4 + 6 * 64);
  const SequenceId id = store->Open(100).value();
  for (int64_t length = 1; length <= 100; ++length) {
    ASSERT_TRUE(Feed(*store, id, 1).ok());
    EXPECT_LE(store->View(0, id, length).n_slots(), 36);
  }
}

TEST_F(BudgetStoreTest, ThereIsNoWayBackBehindABoundary) {
  const auto store =
      Make(BudgetSpec(), BudgetOf(6, 10), std::make_unique<Told>(TokenScores(100, {})));
  const SequenceId id = store->Open(100).value();
  ASSERT_TRUE(Feed(*store, id, 8).ok());
  EXPECT_TRUE(store->Truncate(id, 5).ok());  // nothing has left yet
  ASSERT_TRUE(Feed(*store, id, 20).ok());
  const absl::Status refused = store->Truncate(id, 19);
  EXPECT_TRUE(IsUnsupported(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("to 19 tokens: at 20 others have left"));
  EXPECT_EQ(store->Length(id), 25);
  EXPECT_TRUE(store->Truncate(id, 20).ok());
  EXPECT_EQ(HeldBy(*store, id, 0).size(), 6U);
  EXPECT_TRUE(store->Truncate(id, 0).ok());
  ASSERT_TRUE(Feed(*store, id, 9).ok());
  EXPECT_EQ(HeldBy(*store, id, 0).size(), 9U);
}

TEST_F(BudgetStoreTest, AStepEndsAtABoundary) {
  const auto store =
      Make(BudgetSpec(), BudgetOf(6, 10), std::make_unique<Told>(TokenScores(100, {})));
  const SequenceId id = store->Open(100).value();
  const std::vector<float> rows(110);
  const TensorView<const float, 3> view(rows.data(), {11, 2, 5});
  const SequenceRows entry{.sequence = id, .start_pos = 0, .n_tokens = 11};
  const absl::Status refused = store->Append(0, {&entry, 1}, view, view);
  EXPECT_EQ(ExitCode(refused), 1);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("goes past a multiple of 10"));
}

TEST_F(BudgetStoreTest, AForkGoesItsOwnWay) {
  const auto store =
      Make(BudgetSpec(), BudgetOf(6, 10), std::make_unique<Told>(TokenScores(100, {3})));
  const SequenceId id = store->Open(100).value();
  ASSERT_TRUE(Feed(*store, id, 25).ok());
  const SequenceId fork = store->Fork(id, 100).value();
  const std::vector<int64_t> held = HeldBy(*store, id, 1);
  EXPECT_EQ(HeldBy(*store, fork, 1), held);
  ASSERT_TRUE(Feed(*store, fork, 10).ok());
  EXPECT_EQ(HeldBy(*store, id, 1), held);
  std::vector<float> row(5);
  store->CopyRow(KvPart::kValue, store->View(1, id, 25), held[3], 1, row.data());
  EXPECT_EQ(row[0], static_cast<float>(held[3]) + 1.25F);
}

TEST_F(BudgetStoreTest, AnErrorOfThePolicyLeavesAllAsItWas) {
  const auto store = Make(BudgetSpec(), BudgetOf(6, 10), std::make_unique<Fails>());
  const SequenceId id = store->Open(100).value();
  ASSERT_TRUE(Feed(*store, id, 19).ok());
  const std::vector<int64_t> held = HeldBy(*store, id, 0);
  const absl::Status failed = Feed(*store, id, 1);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("no more"));
  EXPECT_EQ(store->Length(id), 19);
  EXPECT_EQ(HeldBy(*store, id, 0), held);
}

TEST_F(BudgetStoreTest, RefusesAPolicyThatNeedsWhatItDoesNotGive) {
  const auto refused =
      test::MakeBudget(context_, BudgetSpec(), BudgetOf(6, 10), std::make_unique<Wishes>());
  EXPECT_EQ(ExitCode(refused.status()), 4);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("policy 'mine' needs 'queries', which this cache does not give; it gives "
                        "positions, keys, values, attended"));
}

// Scores tokens by the attention that they got of all queries, or of the last ones.
class Heavy final : public Policy {
 public:
  explicit Heavy(int64_t queries) : queries_(queries) {}
  std::span<const std::string_view> needs() const override { return {&kNeedAttended, 1}; }
  int64_t attended_queries() const override { return queries_; }
  absl::Status Score(const HeldTokens& tokens, std::span<float> scores) const override {
    std::ranges::copy(tokens.attended, scores.begin());
    return absl::OkStatus();
  }

 private:
  const int64_t queries_;
};

// Queries give all to the tokens of `high`, each to one of its own kv head.
absl::Status FeedAttending(CacheStore& store, SequenceId id, int64_t n_tokens,
                           const std::vector<int64_t>& high) {
  AttendedMass& attended = *CapabilityOf<AttendedMass>(store);
  const CacheSpec spec = BudgetSpec();
  for (; n_tokens > 0; --n_tokens) {
    const int64_t begin = store.Length(id);
    const std::vector<float> row(10);
    const TensorView<const float, 3> view(row.data(), {1, spec.n_kv_heads, spec.head_dim});
    SequenceRows entry{.sequence = id, .start_pos = begin, .n_tokens = 1};
    entry.mass_tokens = attended.MassTokens(entry);
    for (int layer = 0; layer < spec.n_layers; ++layer) {
      NG_RETURN_IF_ERROR(store.Append(layer, {&entry, 1}, view, view));
      const KvView held = store.View(layer, id, begin + 1);
      std::vector<float> mass(static_cast<size_t>(2 * held.n_slots()));
      for (int head = 0; head < 2; ++head) {
        const int64_t slot = held.SlotOf(head, high[static_cast<size_t>(head)]);
        if (slot >= 0 && slot < held.n_slots())
          mass[static_cast<size_t>(head * held.n_slots() + slot)] = 1.0F;
      }
      if (entry.mass_tokens == 0) continue;
      NG_RETURN_IF_ERROR(attended.Attended(layer, entry, {mass.data(), {1, 2, held.n_slots()}}));
    }
    NG_RETURN_IF_ERROR(store.Commit({&entry, 1}));
  }
  return absl::OkStatus();
}

TEST_F(BudgetStoreTest, EveryHeadKeepsWhatItsQueriesAttendedTo) {
  const auto store = Make(BudgetSpec(), BudgetOf(5, 10), std::make_unique<Heavy>(0));
  EXPECT_TRUE(store->plan().attended);
  const SequenceId id = store->Open(100).value();
  ASSERT_TRUE(FeedAttending(*store, id, 10, {4, 6}).ok());
  // One sink, two newest, and two by attention, of which one got none.
  EXPECT_THAT(HeldBy(*store, id, 0), ElementsAre(0, 1, 4, 8, 9));
  EXPECT_THAT(HeldBy(*store, id, 1, 1), ElementsAre(0, 1, 6, 8, 9));
  // What tokens have got they keep where others leave.
  ASSERT_TRUE(FeedAttending(*store, id, 10, {9, 13}).ok());
  EXPECT_THAT(HeldBy(*store, id, 0), ElementsAre(0, 4, 9, 18, 19));
  EXPECT_THAT(HeldBy(*store, id, 1, 1), ElementsAre(0, 6, 13, 18, 19));
}

TEST_F(BudgetStoreTest, TheLastQueriesAloneMayCount) {
  const auto store = Make(BudgetSpec(), BudgetOf(4, 10), std::make_unique<Heavy>(3));
  const SequenceId id = store->Open(100).value();
  ASSERT_TRUE(FeedAttending(*store, id, 7, {4, 6}).ok());
  ASSERT_TRUE(FeedAttending(*store, id, 3, {3, 2}).ok());
  EXPECT_THAT(HeldBy(*store, id, 0), ElementsAre(0, 3, 8, 9));
  EXPECT_THAT(HeldBy(*store, id, 1), ElementsAre(0, 2, 8, 9));
}

TEST_F(BudgetStoreTest, RefusesMoreQueriesThanComeBetweenTwoBoundaries) {
  const auto refused =
      test::MakeBudget(context_, BudgetSpec(), BudgetOf(6, 10), std::make_unique<Heavy>(11));
  EXPECT_EQ(ExitCode(refused.status()), 2);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("policy 'mine' looks at the attention of the last 11 queries, must be at "
                        "most cache.budget.every = 10"));
}

TEST_F(BudgetStoreTest, DoesNotGoBackWhereItHasCounted) {
  const auto store = Make(BudgetSpec(), BudgetOf(6, 50), std::make_unique<Heavy>(0));
  const SequenceId id = store->Open(100).value();
  ASSERT_TRUE(FeedAttending(*store, id, 9, {1, 2}).ok());
  const absl::Status refused = store->Truncate(id, 4);
  EXPECT_TRUE(IsUnsupported(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("to 4 tokens: policy mine counts what those behind gave"));
  EXPECT_EQ(store->Length(id), 9);
  EXPECT_TRUE(store->Truncate(id, 0).ok());
}

TEST_F(BudgetStoreTest, TellsHowManyHaveLeft) {
  const auto store =
      Make(BudgetSpec(), BudgetOf(6, 10), std::make_unique<Told>(TokenScores(100, {})));
  const SequenceId id = store->Open(100).value();
  ASSERT_TRUE(Feed(*store, id, 9).ok());
  EXPECT_EQ(store->Report(), "");
  ASSERT_TRUE(Feed(*store, id, 20).ok());
  EXPECT_THAT(store->Report(), HasSubstr("policy mine let 14 tokens go, which took "));
  const auto values = CapabilityOf<Statistics>(*store)->Values().value();
  EXPECT_EQ(StatisticValue(values, "tokens_gone"), 14);
  EXPECT_EQ(CapabilityOf<Snapshots>(*store), nullptr);
}

// The options of expected_attention.
std::vector<OptionValue> ExpectedValues() {
  std::vector<OptionValue> values;
  for (const OptionSpec& option : kExpectedAttentionOptions) {
    OptionValue& value = values.emplace_back();
    value.name = option.name;
    value.type = option.type;
    value.integer = 2;
    value.boolean = true;
  }
  return values;
}

TEST_F(BudgetStoreTest, Conforms) {
  for (const char* name :
       {"window", "random", "knorm", "keydiff", "tova", "snapkv", "expected_attention"}) {
    for (const bool per_head : {true, false}) {
      conform::CacheSubject subject;
      subject.settings.quick = true;
      subject.make = [name, per_head](
                         const PluginContext& context,
                         const CacheSpec& spec) -> absl::StatusOr<std::unique_ptr<CacheStore>> {
        BudgetOptions options = BudgetOf(14, 6);
        options.per_head = per_head;
        PluginContext plain;
        OptionValue seed;
        seed.name = "seed";
        seed.type = OptionType::kInt;
        plain.options = OptionValues({&seed, 1});
        const std::vector<OptionValue> expected = ExpectedValues();
        std::unique_ptr<Policy> policy = std::make_unique<WindowPolicy>(plain);
        if (std::string(name) == "random") policy = std::make_unique<RandomPolicy>(plain);
        if (std::string(name) == "knorm") policy = std::make_unique<KnormPolicy>(plain);
        if (std::string(name) == "keydiff") policy = std::make_unique<KeydiffPolicy>(plain);
        if (std::string(name) == "tova") policy = std::make_unique<TovaPolicy>(plain);
        if (std::string(name) == "snapkv") policy = std::make_unique<SnapkvPolicy>(5, 3, false);
        if (std::string(name) == "expected_attention") {
          plain.options = OptionValues(expected);
          policy = std::make_unique<ExpectedAttentionPolicy>(plain);
        }
        return test::MakeBudget(context, spec, options, std::move(policy));
      };
      subject.backends = {{"reference", CreateReferenceAttention}, {"flash", CreateFlashAttention}};
      EXPECT_THAT(conform::CheckCache(subject), IsEmpty()) << name << per_head;
    }
  }
}

TEST(BudgetOptions, SayWhatDoesNotGoTogether) {
  for (const auto& [sinks, recent] : {std::pair(int64_t{4}, int64_t{5}), {0, INT64_MAX}}) {
    std::vector<OptionValue> values;
    for (const OptionSpec& option : kBudgetOptions) {
      OptionValue& value = values.emplace_back();
      value.name = option.name;
      value.type = option.type;
      if (value.name == "policy") value.text = "window";
      if (value.name == "when") value.text = "every";
      if (value.name == "per") value.text = "head";
      if (value.name == "tokens") value.integer = 8;
      if (value.name == "sinks") value.integer = sinks;
      if (value.name == "recent") value.integer = recent;
    }
    const auto read = ReadBudgetOptions(OptionValues(values));
    EXPECT_EQ(ExitCode(read.status()), 2);
    EXPECT_THAT(std::string(read.status().message()),
                HasSubstr(absl::StrCat("cache.budget.tokens = 8, must be at least "
                                       "cache.budget.sinks = ",
                                       sinks, " and cache.budget.recent = ", recent, " together")));
  }
}

}  // namespace
}  // namespace ng
