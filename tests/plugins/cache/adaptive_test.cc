// Budgets by kv head: what each of them keeps, what that takes, and images of whole sequences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/machine/executor.h"
#include "ng/conform/cache.h"
#include "plugins/attention/flash/flash_attention.h"
#include "plugins/attention/reference/reference_attention.h"
#include "plugins/cache/budget/budget_store.h"
#include "plugins/cache/budget/keep.h"
#include "plugins/policy/keydiff/keydiff.h"
#include "plugins/policy/knorm/knorm.h"
#include "plugins/policy/observed/observed.h"
#include "plugins/policy/snapkv/snapkv.h"
#include "tests/plugins/cache/make_budget.h"

namespace ng {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kAdaptiveLayouts[] = {kLayoutTiles16};
constexpr int kUnevenHeads = 3;

// Which slots of the heads stay, [heads]: of scores of each.
std::vector<std::vector<int>> KeptOver(const std::vector<std::vector<float>>& scores,
                                       const LayerBudget& budget) {
  KvView view;
  std::vector<HeadSlots> heads;
  std::vector<float> all;
  for (const auto& own : scores) view.length = std::max(view.length, std::ssize(own));
  for (const auto& own : scores) {
    all.insert(all.end(), own.begin(), own.end());
    heads.push_back({.gone = view.length - std::ssize(own)});
  }
  view.heads = heads;
  std::vector<int32_t> order(all.size());
  std::vector<unsigned char> stays(all.size());
  KeepBestOfLayer(budget, {.scores = all, .view = view, .order = order, .stays = stays});
  std::vector<std::vector<int>> kept(scores.size());
  size_t at = 0;
  for (size_t head = 0; head < scores.size(); ++head) {
    for (size_t slot = 0; slot < scores[head].size(); ++slot, ++at) {
      if (stays[at] == 1) kept[head].push_back(static_cast<int>(slot));
    }
  }
  return kept;
}

TEST(KeepBestOfLayer, TakesTheBestOfAllHeads) {
  const std::vector<std::vector<float>> scores = {{9, 8, 7, 6}, {1, 2, 5, 3}};
  EXPECT_THAT(KeptOver(scores, {.total = 4}), ElementsAre(ElementsAre(0, 1, 2, 3), IsEmpty()));
  EXPECT_THAT(KeptOver(scores, {.least = 1, .total = 4}),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(2)));
  EXPECT_THAT(KeptOver(scores, {.sinks = 1, .recent = 1, .least = 2, .total = 5}),
              ElementsAre(ElementsAre(0, 1, 3), ElementsAre(0, 3)));
  EXPECT_THAT(KeptOver(scores, {.total = 8}),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(0, 1, 2, 3)));
}

TEST(KeepBestOfLayer, TakesTheLowerPositionOfEqualScoresThenTheLowerHead) {
  EXPECT_THAT(KeptOver({{1, 1, 1}, {1, 1, 1}}, {.total = 3}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(0)));
  // The slots of the second head have the tokens 1 and 2.
  EXPECT_THAT(KeptOver({{1, 1, 1}, {1, 1}}, {.total = 3}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(0)));
}

// Against all of them sorted.
TEST(KeepBestOfLayer, KeepsWhatItsDefinitionKeeps) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::vector<float>> scores(1 + random() % 4);
    int64_t n_all = 0;
    int64_t fewest = 99;
    for (auto& own : scores) {
      own.resize(4 + random() % 20);
      for (float& score : own) score = static_cast<float>(random() % 1000003);
      n_all += std::ssize(own);
      fewest = std::min(fewest, std::ssize(own));
    }
    const auto n_heads = static_cast<int64_t>(scores.size());
    LayerBudget budget{.sinks = 1, .recent = 2};
    budget.least = 3 + static_cast<int64_t>(random() % static_cast<uint64_t>(fewest - 2));
    const int64_t must = n_heads * budget.least;
    budget.total = must + static_cast<int64_t>(random() % static_cast<uint64_t>(n_all - must + 1));
    std::vector<std::pair<float, std::pair<size_t, int>>> others;
    std::vector<std::vector<int>> wanted(scores.size());
    for (size_t head = 0; head < scores.size(); ++head) {
      const auto n = static_cast<int>(scores[head].size());
      std::vector<std::pair<float, int>> own;
      for (int slot = 1; slot < n - 2; ++slot) {
        own.emplace_back(scores[head][static_cast<size_t>(slot)], slot);
      }
      std::ranges::sort(own, std::greater<>());
      wanted[head] = {0, n - 2, n - 1};
      for (size_t i = 0; i < own.size(); ++i) {
        if (std::cmp_less(i, budget.least - 3)) {
          wanted[head].push_back(own[i].second);
        } else {
          others.push_back({own[i].first, {head, own[i].second}});
        }
      }
    }
    std::ranges::sort(others, std::greater<>());
    for (int64_t i = 0; i < budget.total - must; ++i) {
      const auto [head, slot] = others[static_cast<size_t>(i)].second;
      wanted[head].push_back(slot);
    }
    for (auto& own : wanted) std::ranges::sort(own);
    ASSERT_EQ(KeptOver(scores, budget), wanted) << trial;
  }
}

CacheSpec UnevenSpec(Codec codec = Codec::kF32, int64_t max_tokens = 400) {
  return {.n_layers = 2,
          .n_kv_heads = kUnevenHeads,
          .n_heads = kUnevenHeads,
          .head_dim = 5,
          .max_tokens = max_tokens,
          .max_sequences = 2,
          .codec_k = codec,
          .codec_v = codec,
          .layouts = kAdaptiveLayouts};
}

BudgetOptions AdaptiveOptions(int64_t tokens, int64_t every, bool at_mark = false) {
  return {.policy = "mine",
          .tokens = tokens,
          .sinks = 1,
          .recent = 2,
          .every = every,
          .at_mark = at_mark,
          .safeguard = 0.2};
}

class AdaptiveStore : public ::testing::Test {
 protected:
  AdaptiveStore() { context_.executor = executor_.get(); }

  std::unique_ptr<CacheStore> Make(const CacheSpec& spec, const BudgetOptions& options) {
    auto store =
        test::MakeBudget(context_, spec, options, std::make_unique<KnormPolicy>(PluginContext()));
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  // Row d of head h of token t has numbers of its own; keys of later heads are the longer, and grow
  // and shrink over the text, so that heads gain and lose.
  static float Number(int64_t token, int64_t head, int64_t d) {
    const auto mixed = static_cast<uint64_t>((token * 31 + head) * 17 + d) * 2654435761U;
    const float noise = static_cast<float>(mixed >> 8 & 0xFFFF) / 65536.0F;
    const bool turn = token / 100 % 2 == 1;
    return (0.5F + noise) * static_cast<float>(turn ? 1 + head : kUnevenHeads - head);
  }

  static void Feed(CacheStore& store, SequenceId id, int64_t n_tokens, int64_t most = 99) {
    const CacheSpec spec = UnevenSpec();
    while (n_tokens > 0) {
      const int64_t begin = store.Length(id);
      auto* const marks = CapabilityOf<ContextMark>(store);
      const int64_t mark = marks == nullptr ? 0 : marks->Mark(id);
      const int64_t n = std::min({n_tokens, store.plan().ToBoundary(begin, mark), most});
      std::vector<float> rows;
      for (int64_t token = begin; token < begin + n; ++token) {
        for (int64_t head = 0; head < spec.n_kv_heads; ++head) {
          for (int64_t d = 0; d < spec.head_dim; ++d) rows.push_back(Number(token, head, d));
        }
      }
      const TensorView<const float, 3> view(rows.data(), {n, spec.n_kv_heads, spec.head_dim});
      const SequenceRows entry{.sequence = id, .start_pos = begin, .n_tokens = n};
      for (int layer = 0; layer < spec.n_layers; ++layer) {
        ASSERT_TRUE(store.Append(layer, {&entry, 1}, view, view).ok());
      }
      ASSERT_TRUE(store.Commit({&entry, 1}).ok());
      n_tokens -= n;
    }
  }

  static std::vector<int64_t> Counts(const CacheStore& store, SequenceId id) {
    const KvView view = store.View(0, id, store.Length(id));
    std::vector<int64_t> counts;
    for (int head = 0; head < kUnevenHeads; ++head) counts.push_back(view.n_slots(head));
    return counts;
  }

  // Every row that is held has its own numbers, and all heads together hold what they may.
  static void ExpectRows(const CacheStore& store, SequenceId id, int64_t total) {
    const int64_t length = store.Length(id);
    for (int layer = 0; layer < 2; ++layer) {
      const KvView view = store.View(layer, id, length);
      int64_t held = 0;
      for (int head = 0; head < kUnevenHeads; ++head) {
        held += view.n_slots(head);
        for (int64_t slot = 0; slot < view.n_slots(head); ++slot) {
          const int64_t token = view.TokenAt(head, slot);
          ASSERT_EQ(view.SlotOf(head, token), slot);
          float row[5];
          for (const KvPart part : {KvPart::kKey, KvPart::kValue}) {
            store.CopyRow(part, view, token, head, row);
            for (int d = 0; d < 5; ++d) ASSERT_EQ(row[d], Number(token, head, d)) << token;
          }
        }
      }
      EXPECT_EQ(held, total) << length;
    }
  }

  std::unique_ptr<Executor> executor_ = MakeExecutor(2);
  PluginContext context_;
};

TEST_F(AdaptiveStore, HeadsHoldTheirOwnNumbersOfTokensAndTheirRuns) {
  const auto store = Make(UnevenSpec(), AdaptiveOptions(50, 20));
  const SequenceId id = store->Open(400).value();
  std::vector<int64_t> least(kUnevenHeads, 400);
  std::vector<int64_t> most(kUnevenHeads, 0);
  Feed(*store, id, 60);
  for (int64_t length = 60; length <= 380; length += 20) {
    ExpectRows(*store, id, kUnevenHeads * 50);
    const std::vector<int64_t> counts = Counts(*store, id);
    for (size_t head = 0; head < counts.size(); ++head) {
      EXPECT_GE(counts[head], 10);  // a fifth of 50
      least[head] = std::min(least[head], counts[head]);
      most[head] = std::max(most[head], counts[head]);
    }
    if (length < 380) Feed(*store, id, 20, 3);
  }
  for (size_t head = 0; head < least.size(); ++head) EXPECT_GT(most[head], least[head]) << head;
  EXPECT_GE(std::ranges::max(most), 90);
  EXPECT_LE(std::ranges::max(most), store->plan().head_slots - 20);
}

// All heads together take what even ones take, whatever one of them may hold.
TEST_F(AdaptiveStore, TakesNoMoreThanEvenBudgetsButForTiles) {
  BudgetOptions options = AdaptiveOptions(100, 28);
  const auto bytes = [&] {
    const auto rules = test::OneRule(options, std::make_unique<KnormPolicy>(PluginContext()));
    return ShapeOfBudget(UnevenSpec(), rules).value().pages.page_bytes;
  };
  const auto uneven = Make(UnevenSpec(), options)->plan();
  const int64_t adaptive_bytes = bytes();
  options.safeguard.reset();
  // K and V of 2 layers, 16 tokens of 5 numbers.
  EXPECT_LE(adaptive_bytes, bytes() + int64_t{2} * 2 * (kUnevenHeads - 1) * 16 * 5 * 4);
  EXPECT_EQ(uneven.slots, 128);
  EXPECT_EQ(uneven.head_slots, 100 + 2 * 80 + 28);
  EXPECT_EQ(uneven.most_slots(), uneven.head_slots);
}

TEST_F(AdaptiveStore, ForksAndGoesBackToItsLastBoundary) {
  const auto store = Make(UnevenSpec(), AdaptiveOptions(50, 20));
  const SequenceId id = store->Open(400).value();
  Feed(*store, id, 130);
  const SequenceId fork = store->Fork(id, 400).value();
  EXPECT_EQ(Counts(*store, fork), Counts(*store, id));
  EXPECT_TRUE(IsUnsupported(store->Truncate(fork, 119)));
  ASSERT_TRUE(store->Truncate(fork, 120).ok());
  Feed(*store, fork, 100);
  Feed(*store, id, 90);
  EXPECT_EQ(Counts(*store, fork), Counts(*store, id));
  ExpectRows(*store, fork, kUnevenHeads * 50);
}

TEST_F(AdaptiveStore, HoldsUnevenNumbersBehindAMark) {
  const auto store = Make(UnevenSpec(), AdaptiveOptions(50, 20, true));
  const SequenceId id = store->Open(400).value();
  ASSERT_TRUE(CapabilityOf<ContextMark>(*store)->SetMark(id, 170).ok());
  Feed(*store, id, 400, 37);
  const std::vector<int64_t> counts = Counts(*store, id);
  EXPECT_NE(counts[0], counts[1]);
  ExpectRows(*store, id, kUnevenHeads * (50 + 230));
}

TEST_F(AdaptiveStore, AnImageGoesOnWithTheSameTokens) {
  for (const bool adaptive : {true, false}) {
    for (const int64_t n : {0, 45, 130}) {
      BudgetOptions options = AdaptiveOptions(50, 20);
      if (!adaptive) options.safeguard.reset();
      const auto store = Make(UnevenSpec(), options);
      const auto other = Make(UnevenSpec(Codec::kF32, 395), options);  // of another length
      const SequenceId id = store->Open(400).value();
      Feed(*store, id, n);
      auto* const images = CapabilityOf<SequenceImages>(*store);
      std::vector<std::byte> image(static_cast<size_t>(images->ImageBytes(id)));
      ASSERT_TRUE(images->ExportImage(id, image).ok());
      const SequenceId to = other->Open(390).value();
      const absl::Status imported = CapabilityOf<SequenceImages>(*other)->ImportImage(to, n, image);
      ASSERT_TRUE(imported.ok()) << imported;
      ASSERT_EQ(other->Length(to), n);
      Feed(*store, id, 390 - n, 7);
      Feed(*other, to, 390 - n);
      EXPECT_EQ(Counts(*other, to), Counts(*store, id));
      ExpectRows(*other, to, kUnevenHeads * 60);
    }
  }
}

TEST_F(AdaptiveStore, RefusesAnImageThatIsNone) {
  const auto store = Make(UnevenSpec(), AdaptiveOptions(50, 20));
  auto* const images = CapabilityOf<SequenceImages>(*store);
  const SequenceId id = store->Open(400).value();
  const SequenceId to = store->Open(200).value();
  Feed(*store, id, 130);
  std::vector<std::byte> image(static_cast<size_t>(images->ImageBytes(id)));
  EXPECT_EQ(ExitCode(images->ExportImage(id, std::span(image).first(100))), 1);
  ASSERT_TRUE(images->ExportImage(id, image).ok());
  EXPECT_THAT(std::string(images->ImportImage(id, 130, image).message()),
              HasSubstr("has 130 tokens already, must have none"));
  EXPECT_EQ(ExitCode(images->ImportImage(to, 201, image)), 5);
  EXPECT_EQ(ExitCode(images->ImportImage(to, 129, image)), 1);
  // What any number of its head says otherwise is refused, or is read as it is.
  std::mt19937_64 random(4);
  for (size_t at = 0; at < 400; ++at) {
    std::vector<std::byte> damaged = image;
    damaged[at] ^= static_cast<std::byte>(1 + random() % 255);
    if (images->ImportImage(to, 130, damaged).ok()) {
      Feed(*store, to, 70);
      ASSERT_TRUE(store->Truncate(to, 0).ok());
    }
    ASSERT_EQ(store->Length(to), 0);
  }
  for (const size_t size : {size_t{0}, size_t{7}, size_t{200}, image.size() - 1}) {
    const absl::Status refused = images->ImportImage(to, 130, std::span(image).first(size));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("is none of a sequence of 130 tokens"));
  }
  image.resize(image.size() + 1);
  EXPECT_EQ(ExitCode(images->ImportImage(to, 130, image)), 1);
}

TEST_F(AdaptiveStore, Conforms) {
  for (const std::string name : {"knorm", "keydiff", "snapkv", "observed"}) {
    for (const bool at_mark : {false, true}) {
      conform::CacheSubject subject;
      subject.settings.quick = true;
      subject.make = [name, at_mark](const PluginContext& context, const CacheSpec& spec) {
        BudgetOptions options = AdaptiveOptions(10, 8, at_mark);
        options.beta = name == "keydiff" ? 3 : 0;
        std::unique_ptr<Policy> policy = std::make_unique<KnormPolicy>(PluginContext());
        if (name == "keydiff") policy = std::make_unique<KeydiffPolicy>(PluginContext());
        if (name == "snapkv") policy = std::make_unique<SnapkvPolicy>(4, 3, false);
        if (name == "observed") {
          OptionValue by;
          by.name = "by";
          by.type = OptionType::kText;
          by.text = "sum";
          PluginContext plain;
          plain.options = OptionValues({&by, 1});
          policy = std::make_unique<ObservedPolicy>(plain);
        }
        return test::MakeBudget(context, spec, options, std::move(policy));
      };
      subject.backends = {{"reference", CreateReferenceAttention}, {"flash", CreateFlashAttention}};
      EXPECT_THAT(conform::CheckCache(subject), IsEmpty()) << name << " " << at_mark;
    }
  }
}

}  // namespace
}  // namespace ng
