// A cache with a budget that has several rules: a context is read once, and forks of it keep what a
// store of each rule alone keeps.
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
#include "plugins/policy/knorm/knorm.h"
#include "plugins/policy/snapkv/snapkv.h"
#include "plugins/policy/tova/tova.h"
#include "tests/plugins/cache/make_budget.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kRuleLayouts[] = {kLayoutTiles16};
constexpr int64_t kContext = 70;
constexpr int64_t kText = 80;

CacheSpec RuleSpec() {
  return {.n_layers = 2,
          .n_kv_heads = 2,
          .n_heads = 4,
          .head_dim = 4,
          .max_tokens = 100,
          .max_sequences = 3,
          .layouts = kRuleLayouts};
}

// The last queries of the context by which snapkv goes.
constexpr int64_t kQueries = 9;

// Goes by the mean of the queries from the one at `first` on.
class ByMeanQuery final : public Policy {
 public:
  explicit ByMeanQuery(int64_t first) : first_(first) {}
  std::span<const std::string_view> needs() const override { return kNeeds; }
  int64_t first_query() const override { return first_; }
  absl::Status Score(const HeldTokens& tokens, std::span<float> scores) const override {
    const double* const mean = tokens.queries.mean.Row(0);
    for (size_t i = 0; i < scores.size(); ++i) {
      const float* const key = tokens.keys.Row(static_cast<int64_t>(i));
      double sum = 0.0;
      for (int64_t at = 0; at < tokens.keys.extent[1]; ++at) sum += mean[at] * double{key[at]};
      scores[i] = static_cast<float>(sum);
    }
    return absl::OkStatus();
  }

 private:
  static constexpr std::string_view kNeeds[] = {kNeedKeys, kNeedQueryStatistics};
  const int64_t first_;
};

std::unique_ptr<Policy> PolicyOf(const std::string& name) {
  if (name == "keydiff") return std::make_unique<KeydiffPolicy>(PluginContext());
  if (name == "tova") return std::make_unique<TovaPolicy>(PluginContext());
  if (name == "queries") return std::make_unique<ByMeanQuery>(0);
  if (name == "late_queries") return std::make_unique<ByMeanQuery>(60);
  if (name == "snapkv") return std::make_unique<SnapkvPolicy>(kQueries, 3, false);
  return std::make_unique<KnormPolicy>(PluginContext());
}

BudgetRule RuleOf(const std::string& policy, int64_t tokens) {
  const BudgetOptions options{
      .policy = policy, .tokens = tokens, .sinks = 1, .recent = 2, .at_mark = true};
  return {options.RuleName(), options, PolicyOf(policy)};
}

const std::vector<std::pair<std::string, int64_t>>& AllRules() {
  static const std::vector<std::pair<std::string, int64_t>> rules = {
      {"knorm", 20},  {"keydiff", 20}, {"tova", 33},        {"snapkv", 16},
      {"snapkv", 40}, {"queries", 30}, {"late_queries", 30}};
  return rules;
}

float Drawn(int64_t a, int64_t b, int64_t c) {
  const int64_t mixed = (a * 7919 + b * 104729 + c * 31 + 17) * 2654435761;
  return static_cast<float>((mixed >> 8) % 65521) * 1e-5F;
}

class BudgetRulesTest : public ::testing::Test {
 protected:
  BudgetRulesTest() { context_.executor = executor_.get(); }

  std::unique_ptr<CacheStore> Make(std::vector<BudgetRule> rules) {
    return test::MakeBudget(context_, RuleSpec(), std::move(rules)).value();
  }
  std::unique_ptr<CacheStore> MakeAll() {
    std::vector<BudgetRule> rules;
    for (const auto& [policy, tokens] : AllRules()) rules.push_back(RuleOf(policy, tokens));
    return Make(std::move(rules));
  }
  static SequenceId OpenMarked(CacheStore& store) {
    const SequenceId id = store.Open(RuleSpec().max_tokens).value();
    EXPECT_TRUE(CapabilityOf<ContextMark>(store)->SetMark(id, kContext).ok());
    return id;
  }

  // Tokens up to position `end`, in steps of at most 13, with what their queries attend to.
  static absl::Status FeedTo(CacheStore& store, SequenceId id, int64_t end) {
    while (store.Length(id) < end) {
      const int64_t begin = store.Length(id);
      const int64_t n =
          std::min({end - begin, int64_t{13}, store.plan().ToBoundary(begin, kContext)});
      NG_RETURN_IF_ERROR(Step(store, {.sequence = id, .start_pos = begin, .n_tokens = n}));
    }
    return absl::OkStatus();
  }
  static absl::Status TellQueries(CacheStore& store, int layer, const SequenceRows& rows) {
    auto* const told = CapabilityOf<PlainQueries>(store);
    if (told == nullptr) return absl::OkStatus();
    const CacheSpec spec = RuleSpec();
    std::vector<float> q;
    for (int64_t token = rows.start_pos; token < rows.start_pos + rows.n_tokens; ++token) {
      for (int64_t i = 0; i < int64_t{spec.n_heads} * spec.head_dim; ++i) {
        q.push_back(Drawn(token, i, layer + 5) - (token < 60 ? 0.3F : 0.1F));
      }
    }
    return told->Queries(layer, {&rows, 1},
                         {q.data(), {rows.n_tokens, spec.n_heads, spec.head_dim}});
  }
  static absl::Status Step(CacheStore& store, SequenceRows rows) {
    const CacheSpec spec = RuleSpec();
    auto* const attended = CapabilityOf<AttendedMass>(store);
    if (attended != nullptr) rows.mass_tokens = attended->MassTokens(rows);
    const int64_t end = rows.start_pos + rows.n_tokens;
    for (int layer = 0; layer < spec.n_layers; ++layer) {
      std::vector<float> keys, mass;
      for (int64_t token = rows.start_pos; token < end; ++token) {
        for (int64_t i = 0; i < int64_t{spec.n_kv_heads} * spec.head_dim; ++i) {
          keys.push_back(Drawn(token, i, layer) - 0.3F);
        }
      }
      const TensorView<const float, 3> view(keys.data(),
                                            {rows.n_tokens, spec.n_kv_heads, spec.head_dim});
      NG_RETURN_IF_ERROR(store.Append(layer, {&rows, 1}, view, view));
      NG_RETURN_IF_ERROR(TellQueries(store, layer, rows));
      if (rows.mass_tokens == 0) continue;
      const int64_t n_slots = store.View(layer, rows.sequence, end).n_slots();
      for (int64_t query = end - rows.mass_tokens; query < end; ++query) {
        for (int64_t at = 0; at < spec.n_kv_heads * n_slots; ++at) {
          mass.push_back(at % n_slots > query ? 0.0F : Drawn(query, at / n_slots, at % n_slots));
        }
      }
      NG_RETURN_IF_ERROR(attended->Attended(
          layer, rows, {mass.data(), {rows.mass_tokens, spec.n_kv_heads, n_slots}}));
    }
    return store.Commit({&rows, 1});
  }

  // Positions and keys of all heads.
  static std::vector<float> HeldBy(const CacheStore& store, SequenceId id) {
    std::vector<float> held;
    for (int layer = 0; layer < RuleSpec().n_layers; ++layer) {
      const KvView view = store.View(layer, id, store.Length(id));
      for (int head = 0; head < RuleSpec().n_kv_heads; ++head) {
        for (int64_t slot = 0; slot < view.n_slots(); ++slot) {
          const int64_t token = view.TokenAt(head, slot);
          held.push_back(static_cast<float>(token));
          held.resize(held.size() + 4);
          store.CopyRow(KvPart::kKey, view, token, head, &*(held.end() - 4));
        }
      }
    }
    return held;
  }

  std::unique_ptr<Executor> executor_ = MakeExecutor(2);
  PluginContext context_;
};

TEST_F(BudgetRulesTest, ForksKeepWhatAStoreOfTheirRuleKeeps) {
  const auto all = MakeAll();
  const SequenceId read = OpenMarked(*all);
  ASSERT_TRUE(FeedTo(*all, read, kContext - 1).ok());
  auto* const rules = CapabilityOf<KeepRules>(*all);
  ASSERT_NE(rules, nullptr);
  EXPECT_THAT(rules->Rules(), ElementsAre("knorm:20", "keydiff:20", "tova:33", "snapkv:16",
                                          "snapkv:40", "queries:30", "late_queries:30"));
  std::vector<std::vector<float>> seen;
  for (size_t rule = 0; rule < AllRules().size(); ++rule) {
    const SequenceId fork = all->Fork(read, 100).value();
    ASSERT_TRUE(rules->SetRule(fork, static_cast<int>(rule)).ok());
    ASSERT_TRUE(FeedTo(*all, fork, kText).ok());
    // One more is another of the same rule.
    const SequenceId second = all->Fork(fork, 100).value();
    std::vector<BudgetRule> own;
    own.push_back(RuleOf(AllRules()[rule].first, AllRules()[rule].second));
    const auto alone = Make(std::move(own));
    const SequenceId id = OpenMarked(*alone);
    ASSERT_TRUE(FeedTo(*alone, id, kText).ok());
    EXPECT_EQ(HeldBy(*all, fork), HeldBy(*alone, id)) << rule;
    EXPECT_EQ(HeldBy(*all, second), HeldBy(*alone, id)) << rule;
    EXPECT_EQ(all->View(0, fork, kText).n_kept, AllRules()[rule].second);
    for (const std::vector<float>& other : seen) EXPECT_NE(HeldBy(*all, fork), other);
    seen.push_back(HeldBy(*all, fork));
    all->Close(fork);
    all->Close(second);
  }
  // What was read has all of its tokens still, and leaves them by the first rule.
  EXPECT_EQ(all->View(0, read, kContext - 1).gone, 0);
  ASSERT_TRUE(FeedTo(*all, read, kText).ok());
  EXPECT_EQ(HeldBy(*all, read), seen.front());
  const auto values = CapabilityOf<Statistics>(*all)->Values().value();
  EXPECT_EQ(StatisticValue(values, "evictions"), 8);
  EXPECT_GT(StatisticValue(values, "scoring_microseconds"), 0);
  EXPECT_THAT(all->Report(), HasSubstr("7 rules let "));
}

TEST_F(BudgetRulesTest, ARuleStaysOnceTokensHaveLeft) {
  const auto store = MakeAll();
  auto* const rules = CapabilityOf<KeepRules>(*store);
  const SequenceId id = OpenMarked(*store);
  ASSERT_TRUE(rules->SetRule(id, 2).ok());
  ASSERT_TRUE(FeedTo(*store, id, kText).ok());
  const absl::Status late = rules->SetRule(id, 0);
  EXPECT_TRUE(IsUnsupported(late));
  EXPECT_THAT(std::string(late.message()),
              HasSubstr("cannot go by knorm:20: tokens have left by tova:33"));
  EXPECT_EQ(store->View(1, id, kText).n_kept, 33);
  // One that is opened goes by the first rule again.
  store->Close(id);
  const SequenceId next = OpenMarked(*store);
  ASSERT_TRUE(FeedTo(*store, next, kText).ok());
  EXPECT_EQ(store->View(1, next, kText).n_kept, 20);
}

TEST_F(BudgetRulesTest, Conforms) {
  conform::CacheSubject subject;
  subject.settings.quick = true;
  subject.make = [](const PluginContext& context, const CacheSpec& spec) {
    std::vector<BudgetRule> rules;
    rules.push_back(RuleOf("keydiff", 14));
    rules.push_back(RuleOf("tova", 30));
    rules.push_back(RuleOf("queries", 30));
    return test::MakeBudget(context, spec, std::move(rules));
  };
  subject.backends = {{"flash", CreateFlashAttention}};
  EXPECT_THAT(conform::CheckCache(subject), IsEmpty());
}

absl::StatusOr<BudgetOptions> ReadRuleOptions(const std::string& when, const std::string& rules) {
  std::vector<OptionValue> values;
  for (const OptionSpec& option : kBudgetOptions) {
    OptionValue& value = values.emplace_back();
    value.name = option.name;
    value.type = option.type;
    value.text = value.name == "when"    ? when
                 : value.name == "rules" ? rules
                 : value.name == "per"   ? "head"
                                         : "window";
    value.integer = value.name == "tokens" ? 1024 : 5;
  }
  return ReadBudgetOptions(OptionValues(values));
}

TEST(BudgetRuleOptions, AreNamesAndNumbers) {
  const auto read = ReadRuleOptions("prompt", "knorm:10,snapkv:512");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->rules.size(), 2U);
  EXPECT_EQ(read->RuleName(), "window:1024");
  EXPECT_EQ(read->With(read->rules[1]).RuleName(), "snapkv:512");
  EXPECT_EQ(read->With(read->rules[0]).Kept(70), 10);
  const auto shares = ReadRuleOptions("prompt", "knorm:10,knorm:0.250,tova:.5");
  ASSERT_TRUE(shares.ok()) << shares.status();
  EXPECT_EQ(shares->With(shares->rules[1]).RuleName(), "knorm:0.25");
  EXPECT_EQ(shares->With(shares->rules[1]).Kept(70), 17);
  EXPECT_EQ(shares->With(shares->rules[1]).Kept(20), 10);  // sinks and newest
  EXPECT_EQ(shares->With(shares->rules[0]).Kept(70), 10);
  const std::pair<const char*, const char*> wrong[] = {
      {"knorm:1.0", "or which share of the context, between 0 and 1, as in knorm:0.25"},
      {"knorm:0.0", "between 0 and 1"},
      {"knorm:-0.5", "between 0 and 1"},
      {"knorm:0.5x", "between 0 and 1"},
      {"knorm:.", "between 0 and 1"},
      {"knorm:0.25,knorm:0.250", "'knorm:0.250' is given twice"},
      {"knorm", "'knorm' must be a policy and how many tokens stay, as in knorm:256"},
      {"knorm:", "must be a policy"},
      {":10", "must be a policy"},
      {"knorm:0", "must be a policy"},
      {"knorm:12x", "must be a policy"},
      {"knorm:99999999999999999999", "must be a policy"},
      {"knorm:10,,knorm:20", "'' must be a policy"},
      {"knorm:9", "'knorm:9', must be at least cache.budget.sinks = 5 and"},
      {"knorm:10,knorm:10", "'knorm:10' is given twice"}};
  for (const auto& [rules, part] : wrong) {
    const absl::Status status = ReadRuleOptions("prompt", rules).status();
    EXPECT_EQ(ExitCode(status), 2) << rules;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
  const absl::Status every = ReadRuleOptions("every", "knorm:10").status();
  EXPECT_EQ(ExitCode(every), 2);
  EXPECT_THAT(std::string(every.message()), HasSubstr("with cache.budget.when = every"));
}

}  // namespace
}  // namespace ng
