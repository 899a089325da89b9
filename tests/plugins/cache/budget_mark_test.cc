// The cache with a budget whose tokens leave once, where the context of a text ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/machine/executor.h"
#include "ng/conform/cache.h"
#include "plugins/attention/flash/flash_attention.h"
#include "plugins/cache/budget/budget_store.h"
#include "plugins/policy/keydiff/keydiff.h"
#include "tests/plugins/cache/make_budget.h"

namespace ng {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kMarkLayouts[] = {kLayoutTiles16};

CacheSpec MarkSpec() {
  return {.n_layers = 2,
          .n_kv_heads = 2,
          .head_dim = 4,
          .max_tokens = 100,
          .max_sequences = 2,
          .layouts = kMarkLayouts};
}

BudgetOptions AtMark(int64_t tokens) {
  return {.policy = "mine", .tokens = tokens, .sinks = 1, .recent = 2, .at_mark = true};
}

// Of head 0 the even positions are worth more, of head 1 the odd ones.
class EvenOrOdd final : public Policy {
 public:
  absl::Status Score(const HeldTokens& tokens, std::span<float> scores) const override {
    for (size_t i = 0; i < scores.size(); ++i) {
      scores[i] = tokens.positions[i] % 2 == tokens.kv_head ? 1.0F : 0.0F;
    }
    return absl::OkStatus();
  }
};

class BudgetMarkTest : public ::testing::Test {
 protected:
  BudgetMarkTest() { context_.executor = executor_.get(); }

  std::unique_ptr<CacheStore> Make(const BudgetOptions& options) {
    return test::MakeBudget(context_, MarkSpec(), options, std::make_unique<EvenOrOdd>()).value();
  }
  static absl::Status Mark(CacheStore& store, SequenceId id, int64_t length) {
    return CapabilityOf<ContextMark>(store)->SetMark(id, length);
  }

  // Rows of zeros, in steps that end where the plan says.
  static absl::Status Feed(CacheStore& store, SequenceId id, int64_t n_tokens) {
    const CacheSpec spec = MarkSpec();
    const std::vector<float> rows(static_cast<size_t>(n_tokens * spec.n_kv_heads * spec.head_dim));
    const int64_t mark = CapabilityOf<ContextMark>(store)->Mark(id);
    while (n_tokens > 0) {
      const int64_t begin = store.Length(id);
      const int64_t n = std::min(n_tokens, store.plan().ToBoundary(begin, mark));
      NG_RETURN_IF_ERROR(Step(store, {.sequence = id, .start_pos = begin, .n_tokens = n}, rows));
      n_tokens -= n;
    }
    return absl::OkStatus();
  }
  static absl::Status Step(CacheStore& store, const SequenceRows& entry,
                           const std::vector<float>& rows) {
    const CacheSpec spec = MarkSpec();
    const TensorView<const float, 3> view(rows.data(),
                                          {entry.n_tokens, spec.n_kv_heads, spec.head_dim});
    for (int layer = 0; layer < spec.n_layers; ++layer) {
      NG_RETURN_IF_ERROR(store.Append(layer, {&entry, 1}, view, view));
    }
    return store.Commit({&entry, 1});
  }

  static std::vector<int64_t> HeldBy(const CacheStore& store, SequenceId id, int kv_head) {
    std::vector<int64_t> held;
    const KvView view = store.View(1, id, store.Length(id));
    for (int64_t slot = 0; slot < view.n_slots(); ++slot) {
      held.push_back(view.TokenAt(kv_head, slot));
    }
    return held;
  }

  std::unique_ptr<Executor> executor_ = MakeExecutor(2);
  PluginContext context_;
};

TEST_F(BudgetMarkTest, TokensLeaveOnceAndNeverAgain) {
  const auto store = Make(AtMark(6));
  const SequenceId id = store->Open(100).value();
  ASSERT_TRUE(Mark(*store, id, 11).ok());
  ASSERT_TRUE(Feed(*store, id, 10).ok());
  EXPECT_EQ(HeldBy(*store, id, 0).size(), 10U);
  ASSERT_TRUE(Feed(*store, id, 3).ok());
  EXPECT_THAT(HeldBy(*store, id, 0), ElementsAre(0, 2, 4, 6, 9, 10, 11, 12));
  EXPECT_THAT(HeldBy(*store, id, 1), ElementsAre(0, 1, 3, 5, 9, 10, 11, 12));
  ASSERT_TRUE(Feed(*store, id, 80).ok());
  EXPECT_EQ(HeldBy(*store, id, 0).size(), 88U);
}

TEST_F(BudgetMarkTest, AShareOfTheContextStays) {
  BudgetOptions options = AtMark(0);
  options.ratio = 0.3;
  const auto store = Make(options);
  const std::pair<int64_t, size_t> cases[] = {{60, 18}, {59, 17}, {8, 3}, {2, 2}};
  for (const auto& [context, n_kept] : cases) {
    const SequenceId id = store->Open(100).value();
    ASSERT_TRUE(Mark(*store, id, context).ok());
    ASSERT_TRUE(Feed(*store, id, context).ok());
    EXPECT_EQ(HeldBy(*store, id, 0).size(), n_kept) << context;
    store->Close(id);
  }
}

TEST_F(BudgetMarkTest, TheMarkStaysWhereItIsOnceTokensAreHeld) {
  const auto store = Make(AtMark(6));
  const SequenceId id = store->Open(100).value();
  ASSERT_TRUE(Feed(*store, id, 5).ok());
  const absl::Status late = Mark(*store, id, 5);
  EXPECT_TRUE(IsUnsupported(late));
  EXPECT_THAT(std::string(late.message()), HasSubstr("cannot be of 5 tokens: it holds 5 already"));
  EXPECT_EQ(CapabilityOf<ContextMark>(*store)->Mark(id), 0);
  ASSERT_TRUE(Mark(*store, id, 9).ok());
  ASSERT_TRUE(Feed(*store, id, 5).ok());
  EXPECT_TRUE(Mark(*store, id, 9).ok());  // as it is
  const absl::Status other = Mark(*store, id, 20);
  EXPECT_TRUE(IsUnsupported(other));
  EXPECT_THAT(std::string(other.message()), HasSubstr("it holds 10, of a context of 9"));
  const absl::Status back = store->Truncate(id, 8);
  EXPECT_TRUE(IsUnsupported(back));
  EXPECT_THAT(std::string(back.message()), HasSubstr("to 8 tokens: at 9 others have left"));
  EXPECT_TRUE(store->Truncate(id, 9).ok());
  const SequenceId fork = store->Fork(id, 100).value();
  EXPECT_EQ(CapabilityOf<ContextMark>(*store)->Mark(fork), 9);
  EXPECT_EQ(HeldBy(*store, fork, 1), HeldBy(*store, id, 1));
  EXPECT_TRUE(store->Truncate(id, 0).ok());
  EXPECT_EQ(CapabilityOf<ContextMark>(*store)->Mark(id), 9);
  EXPECT_TRUE(Mark(*store, id, 30).ok());
}

TEST_F(BudgetMarkTest, AStepEndsAtTheMark) {
  const auto store = Make(AtMark(6));
  const SequenceId id = store->Open(100).value();
  ASSERT_TRUE(Mark(*store, id, 7).ok());
  const absl::Status refused =
      Step(*store, {.sequence = id, .start_pos = 0, .n_tokens = 8}, std::vector<float>(64));
  EXPECT_EQ(ExitCode(refused), 1);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("goes past the end of its context, 7, where tokens leave"));
}

TEST_F(BudgetMarkTest, ItsPlanHoldsTheWholeText) {
  const CachePlan plan = Make(AtMark(6))->plan();
  EXPECT_EQ(plan.slots, 100);
  EXPECT_EQ(plan.boundary_tokens, 0);
  EXPECT_TRUE(plan.mark);
  EXPECT_EQ(plan.ToBoundary(5, 30), 25);
  EXPECT_EQ(plan.ToBoundary(30, 30), INT64_MAX);
  BudgetOptions every = AtMark(6);
  every.at_mark = false;
  const auto store = Make(every);
  EXPECT_FALSE(store->plan().mark);
  EXPECT_EQ(CapabilityOf<ContextMark>(*store), nullptr);
}

TEST_F(BudgetMarkTest, Conforms) {
  conform::CacheSubject subject;
  subject.settings.quick = true;
  subject.make = [](const PluginContext& context, const CacheSpec& spec) {
    return test::MakeBudget(context, spec, AtMark(14),
                            std::make_unique<KeydiffPolicy>(PluginContext()));
  };
  subject.backends = {{"flash", CreateFlashAttention}};
  EXPECT_THAT(conform::CheckCache(subject), IsEmpty());
}

// The options as a config gives them, with some changed.
absl::StatusOr<BudgetOptions> ReadMarkOptions(const std::string& when, int64_t tokens,
                                              double ratio) {
  std::vector<OptionValue> values;
  for (const OptionSpec& option : kBudgetOptions) {
    OptionValue& value = values.emplace_back();
    value.name = option.name;
    value.type = option.type;
    value.text = value.name == "when" ? when : value.name == "per" ? "head" : "window";
    if (value.name == "rules") value.text.clear();
    value.integer = value.name == "tokens" ? tokens : 1;
    value.real = ratio;
  }
  return ReadBudgetOptions(OptionValues(values));
}

TEST(BudgetMarkOptions, AShareIsOfAContext) {
  EXPECT_EQ(ReadMarkOptions("prompt", 1024, 0.5)->ratio, 0.5);
  EXPECT_EQ(ReadMarkOptions("prompt", 70, 0.0)->Kept(100), 70);
  EXPECT_EQ(ReadMarkOptions("prompt", 70, 0.0)->Kept(60), 60);
  const absl::Status both = ReadMarkOptions("prompt", 70, 0.5).status();
  EXPECT_EQ(ExitCode(both), 2);
  EXPECT_THAT(std::string(both.message()),
              AllOf(HasSubstr("cache.budget.ratio = 0.5"), HasSubstr("cache.budget.tokens = 70"),
                    HasSubstr("must be 1024")));
  const absl::Status every = ReadMarkOptions("every", 1024, 0.5).status();
  EXPECT_EQ(ExitCode(every), 2);
  EXPECT_THAT(std::string(every.message()),
              HasSubstr("cache.budget.ratio = 0.5 is a share of a context, whose length is known "
                        "with cache.budget.when = prompt alone"));
}

}  // namespace
}  // namespace ng
