// Backends that derive from RuleAttention: what a rule changes, and what it leaves.
#include "ng/rule_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "ng/conform/scattered_store.h"
#include "plugins/attention/reference/reference_attention.h"
#include "tests/plugins/attention/flash_testing.h"

namespace ng {
namespace {

using conform::FindBitDifference;
using conform::LastTokenSteps;
using conform::MakeData;
using conform::ScatteredStore;
using conform::WholeSteps;

// Rules as functions.
struct Rules {
  std::function<bool(const RuleQuery&, int64_t)> sees = [](const auto&, int64_t) { return true; };
  std::function<void(const RuleQuery&, std::span<float>)> change = [](const auto&, auto) {};
};

class Ruled final : public RuleAttention {
 public:
  Ruled(const PluginContext& context, Rules rules)
      : RuleAttention(context), rules_(std::move(rules)) {}

 private:
  bool Sees(const RuleQuery& query, int64_t key) const override { return rules_.sees(query, key); }
  void Change(const RuleQuery& query, std::span<float> scores) const override {
    rules_.change(query, scores);
  }
  const Rules rules_;
};

AttentionResult RunWith(const AttentionCase& c, const std::vector<SequenceData>& data,
                        const Rules& rules = {}, const std::vector<CaptureRequest>& captures = {},
                        const MakeCache& cache = ScatteredStore::Create) {
  const MakeAttention make =
      [&](const PluginContext& context) -> absl::StatusOr<std::unique_ptr<AttentionBackend>> {
    return std::make_unique<Ruled>(context, rules);
  };
  return Workbench(c, make, cache, IsaLevel::kScalar, 2).Run(data, LastTokenSteps(c, 3), captures);
}

const AttentionCase kCase = {
    .n_heads = 4, .n_kv_heads = 2, .head_dim = 5, .lengths = {30, 7}, .seed = 9};

TEST(RuleAttention, WithARuleForAWindowHasTheBitsOfTheSpecsWindow) {
  const auto data = MakeData(kCase);
  Rules window;
  window.sees = [](const RuleQuery& query, int64_t key) { return key > query.pos - 6; };
  AttentionCase asked = kCase;
  asked.window = 6;
  const std::vector<CaptureRequest> captures = {{.sequence = 0, .pos = 20, .head = 3}};
  const AttentionResult ruled = RunWith(kCase, data, window, captures);
  const AttentionResult plain = RunWith(asked, data, {}, captures);
  ASSERT_EQ(ruled.out.size(), 2U);
  EXPECT_EQ(FindBitDifference(ruled.out, plain.out), "");
  EXPECT_EQ(FindBitDifference(ruled.captured, plain.captured), "");
  for (size_t j = 0; j <= 20; ++j) EXPECT_EQ(ruled.captured[0][j] > 0.0F, j > 14) << j;
}

// Drops the first tile of a sequence that has more than 27 tokens.
class Dropping : public ScatteredStore {
 public:
  using ScatteredStore::ScatteredStore;
  KvView View(int layer, SequenceId sequence, int64_t length) const override {
    KvView view = ScatteredStore::View(layer, sequence, length);
    if (length <= 27) return view;
    pages_.assign(view.pages.begin(), view.pages.end());
    pages_[0] = nullptr;
    view.pages = pages_;
    view.present = kAllButATile;
    return view;
  }

 private:
  static constexpr uint64_t kAllButATile[] = {~uint64_t{0xFFFF}};
  mutable std::vector<const std::byte*> pages_;
};

TEST(RuleAttention, TokensThatTheCacheHasDroppedTakeNoPart) {
  AttentionCase one = kCase;
  one.lengths = {30};
  const auto data = MakeData(one);
  const std::vector<CaptureRequest> captures = {{.sequence = 0, .pos = 28, .head = 1}};
  const MakeCache drops = [](const PluginContext&,
                             const CacheSpec& spec) -> absl::StatusOr<std::unique_ptr<CacheStore>> {
    return std::make_unique<Dropping>(spec);
  };
  Rules hides;
  hides.sees = [](const RuleQuery& query, int64_t key) { return query.pos < 27 || key > 15; };
  const AttentionResult dropped = RunWith(one, data, {}, captures, drops);
  const AttentionResult hidden = RunWith(one, data, hides, captures);
  EXPECT_EQ(FindBitDifference(dropped.out, hidden.out), "");
  EXPECT_EQ(FindBitDifference(dropped.captured, hidden.captured), "");
}

TEST(RuleAttention, TellsARuleWhichQueryItIsAskedAbout) {
  const auto data = MakeData(kCase);
  const Workbench reference(kCase, CreateReferenceAttention, ScatteredStore::Create,
                            IsaLevel::kScalar, 1);
  const AttentionResult plain = reference.Run(data, WholeSteps(kCase));
  Rules one_head;
  one_head.change = [](const RuleQuery& query, std::span<float> scores) {
    EXPECT_EQ(query.layer, 1);
    EXPECT_EQ(query.spec->n_heads, 4);
    ASSERT_EQ(std::ssize(scores), query.pos + 1);
    ASSERT_EQ(query.room.size(), scores.size());
    std::ranges::fill(query.room, 1e9F);  // it is the rule's
    if (query.head != 2) return;
    for (float& score : scores.first(scores.size() - 1)) score = kUnseen;
  };
  const AttentionResult changed = RunWith(kCase, data, one_head);
  ASSERT_EQ(changed.out.size(), 2U);
  for (size_t i = 0; i < changed.out[0].size(); ++i) {
    const size_t pos = i / 20;
    const size_t head = i / 5 % 4;
    if (head != 2) {
      EXPECT_EQ(changed.out[0][i], plain.out[0][i]);
    } else {
      EXPECT_EQ(changed.out[0][i], data[0].v[(pos * 2 + 1) * 5 + i % 5]);  // its own value
    }
  }
}

TEST(RuleAttention, ShowsNoNanOfAKeyThatIsNotSeen) {
  auto data = MakeData(kCase);
  for (size_t d = 0; d < 10; ++d) {
    data[0].k[3 * 10 + d] = std::numeric_limits<float>::quiet_NaN();
    data[0].v[3 * 10 + d] = std::numeric_limits<float>::quiet_NaN();
  }
  Rules skips;
  skips.sees = [](const RuleQuery& query, int64_t key) { return key != 3 || query.pos == 3; };
  const AttentionResult seen = RunWith(kCase, data, skips);
  ASSERT_EQ(seen.out.size(), 2U);
  for (size_t i = 0; i < seen.out[0].size(); ++i) {
    EXPECT_EQ(std::isnan(seen.out[0][i]), i / 20 == 3) << i;
  }
}

}  // namespace
}  // namespace ng
