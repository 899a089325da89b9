// Layout "tiles16_bounds": the bounds of every full tile of keys, whatever became of its sequence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/machine/executor.h"
#include "ng/cache_capabilities.h"
#include "ng/conform/plain_tiles.h"
#include "ng/tiles16.h"
#include "plugins/cache/contiguous/contiguous_store.h"
#include "plugins/cache/paged/paged_store.h"

namespace ng {
namespace {

constexpr std::string_view kBoundLayouts[] = {kLayoutTiles16Bounds, kLayoutTiles16};
constexpr int64_t kMost = 200;

struct BoundCase {
  std::string store;
  Codec codec;
};

class BoundsTest : public ::testing::TestWithParam<BoundCase> {
 protected:
  BoundsTest() {
    context_.executor = executor_.get();
    options_[0].name = "page_tokens";
    options_[0].type = OptionType::kInt;
    options_[0].integer = 32;
    options_[1].name = "pool_tokens";
    options_[1].type = OptionType::kInt;
    options_[2].name = "share_prefixes";
    options_[2].type = OptionType::kBool;
    options_[2].boolean = true;
    context_.options = OptionValues(options_);
    spec_ = {.n_layers = 2,
             .n_kv_heads = 2,
             .head_dim = 19,
             .max_tokens = kMost,
             .max_sequences = 4,
             .codec_k = GetParam().codec,
             .codec_v = GetParam().codec,
             .layouts = kBoundLayouts};
    store_ = Make();
  }

  std::unique_ptr<CacheStore> Make() const {
    auto store = GetParam().store == "paged" ? CreatePagedStore(context_, spec_)
                                             : CreateContiguousStore(context_, spec_);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  // Random rows behind what the sequence has, in one step.
  void Feed(SequenceId id, int64_t n_tokens) {
    std::vector<float> rows(static_cast<size_t>(n_tokens * spec_.n_kv_heads * spec_.head_dim));
    std::normal_distribution<float> normal(0.0F, 1.0F);
    for (float& x : rows) x = normal(random_);
    if (n_tokens > 20) rows[300] = std::numeric_limits<float>::quiet_NaN();
    const TensorView<const float, 3> view(rows.data(),
                                          {n_tokens, spec_.n_kv_heads, spec_.head_dim});
    const std::vector<int32_t> ids(static_cast<size_t>(n_tokens), 5);
    const SequenceRows entry{
        .sequence = id, .start_pos = store_->Length(id), .n_tokens = n_tokens, .tokens = ids};
    for (int layer = 0; layer < spec_.n_layers; ++layer) {
      ASSERT_TRUE(store_->Append(layer, {&entry, 1}, view, view).ok());
    }
    ASSERT_TRUE(store_->Commit({&entry, 1}).ok());
  }

  void ExpectBounds(const CacheStore& store, SequenceId id) const {
    const conform::Tiles16Side side{
        .part = KvPart::kKey, .codec = spec_.codec_k, .head_dim = spec_.head_dim};
    std::vector<std::byte> want(static_cast<size_t>(BoundsBytes(spec_.head_dim)));
    for (int layer = 0; layer < spec_.n_layers; ++layer) {
      const KvView view = store.View(layer, id, store.Length(id));
      EXPECT_EQ(view.layout, kLayoutTiles16Bounds);
      for (int head = 0; head < spec_.n_kv_heads; ++head) {
        for (int64_t tile = 0; tile < store.Length(id) / kTileTokens; ++tile) {
          conform::WriteTiles16Bounds(side, view.Tile(view.k, head, tile), want.data());
          const std::byte* got = BoundsOf(view, head, tile, spec_.head_dim);
          EXPECT_TRUE(SameNumbers(got, want.data())) << layer << " " << head << " " << tile;
        }
      }
    }
  }

  // One NaN is as good as another, and zero has no sign.
  bool SameNumbers(const std::byte* got, const std::byte* want) const {
    for (int64_t i = 0; i < BoundsBytes(spec_.head_dim) / 2; ++i) {
      uint16_t bits[2];
      std::memcpy(&bits[0], got + 2 * i, 2);
      std::memcpy(&bits[1], want + 2 * i, 2);
      const bool numbers = (bits[1] & 0x7FFFU) <= 0x7F80U;
      if (numbers != ((bits[0] & 0x7FFFU) <= 0x7F80U)) return false;
      if (numbers && bits[0] != bits[1] && ((bits[0] | bits[1]) & 0x7FFFU) != 0) return false;
    }
    return true;
  }

  std::unique_ptr<Executor> executor_ = MakeExecutor(2);
  PluginContext context_;
  std::vector<OptionValue> options_{3};
  CacheSpec spec_;
  std::unique_ptr<CacheStore> store_;
  std::mt19937 random_{11};
};

TEST_P(BoundsTest, FollowTheKeysOfEveryStep) {
  const SequenceId id = *store_->Open(kMost);
  for (const int64_t n : {1, 15, 3, 40, 16, 1, 7, 60}) {
    Feed(id, n);
    ExpectBounds(*store_, id);
  }
}

TEST_P(BoundsTest, FollowForksAndTokensThatAreWrittenAnew) {
  const SequenceId id = *store_->Open(kMost);
  Feed(id, 75);
  const SequenceId fork = *store_->Fork(id, kMost);
  ExpectBounds(*store_, fork);
  ASSERT_TRUE(store_->Truncate(fork, 37).ok());
  Feed(fork, 50);
  Feed(id, 30);
  ExpectBounds(*store_, fork);
  ExpectBounds(*store_, id);
  store_->Close(id);
  const SequenceId again = *store_->Open(kMost);
  Feed(again, 48);
  ExpectBounds(*store_, again);
  ExpectBounds(*store_, fork);
}

TEST_P(BoundsTest, AreMadeOfAnImage) {
  const SequenceId id = *store_->Open(kMost);
  Feed(id, 90);
  auto* snapshots = CapabilityOf<Snapshots>(*store_);
  ASSERT_NE(snapshots, nullptr);
  const std::unique_ptr<CacheStore> other = Make();
  const SequenceId copy = *other->Open(kMost);
  const SequenceRows rows{.sequence = copy, .n_tokens = 90};
  for (int layer = 0; layer < spec_.n_layers; ++layer) {
    std::vector<std::byte> image(static_cast<size_t>(6 * store_->plan().image_tile_bytes));
    ASSERT_TRUE(snapshots->ExportLayer(layer, id, image).ok());
    ASSERT_TRUE(CapabilityOf<Snapshots>(*other)->ImportLayer(layer, rows, image).ok());
  }
  ASSERT_TRUE(other->Commit({&rows, 1}).ok());
  ExpectBounds(*other, copy);
}

// What they take is in the plan: 2 numbers of 16 bits for each of 32 dimensions.
TEST_P(BoundsTest, AreInThePlan) {
  CacheSpec plain = spec_;
  plain.layouts = std::span(kBoundLayouts).last(1);
  const auto plan_of = [&](const CacheSpec& spec) {
    return GetParam().store == "paged" ? PlanPagedStore(context_, spec)
                                       : PlanContiguousStore(context_, spec);
  };
  const CachePlan without = *plan_of(plain);
  const CachePlan with = *plan_of(spec_);
  EXPECT_EQ(without.layout, kLayoutTiles16);
  EXPECT_EQ(with.layout, kLayoutTiles16Bounds);
  EXPECT_EQ(with.image_tile_bytes, without.image_tile_bytes);
  const int64_t tiles = GetParam().store == "paged" ? 14 : 13;  // of 200 tokens
  EXPECT_NEAR(static_cast<double>(with.bytes - without.bytes),
              static_cast<double>(tiles * 4 * 2 * 2 * 128), 2.0 * 4 * 2 * 2 * 64);
  EXPECT_GT(with.bytes_per_token, without.bytes_per_token);
}

INSTANTIATE_TEST_SUITE_P(
    Stores, BoundsTest,
    ::testing::Values(BoundCase{"contiguous", Codec::kF32}, BoundCase{"contiguous", Codec::kBf16},
                      BoundCase{"contiguous", Codec::kF16}, BoundCase{"contiguous", Codec::kInt8},
                      BoundCase{"contiguous", Codec::kInt4}, BoundCase{"paged", Codec::kF32},
                      BoundCase{"paged", Codec::kBf16}, BoundCase{"paged", Codec::kInt8}),
    [](const auto& info) {
      return info.param.store + "_" + std::string(CodecName(info.param.codec));
    });

}  // namespace
}  // namespace ng
