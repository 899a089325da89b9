// The backend that reads the pages that matter: the bits of `flash` where it reads all of them, and
// the pages of a plain choice where it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ng/conform/attention.h"
#include "ng/conform/plain_tiles.h"
#include "ng/conform/scattered_store.h"
#include "ng/half.h"
#include "ng/tiles16.h"
#include "plugins/attention/flash/flash_attention.h"
#include "plugins/attention/sparse/sparse_attention.h"
#include "plugins/cache/contiguous/contiguous_store.h"
#include "tests/plugins/attention/flash_testing.h"

namespace ng {
namespace {

using conform::FindBitDifference;
using conform::LastTokenSteps;
using conform::MakeData;
using conform::RandomSteps;
using conform::ScatteredStore;
using conform::TokenSteps;
using conform::WholeSteps;
using testing::HasSubstr;
using testing::IsEmpty;

MakeAttention SparseOf(int64_t pages, bool measure = false) {
  return [pages, measure](
             const PluginContext& context) -> absl::StatusOr<std::unique_ptr<AttentionBackend>> {
    std::vector<OptionValue> values(2);
    values[0].name = "pages";
    values[0].type = OptionType::kInt;
    values[0].integer = pages;
    values[1].name = "measure";
    values[1].type = OptionType::kBool;
    values[1].boolean = measure;
    PluginContext with_pages = context;
    with_pages.options = OptionValues(values);
    return std::make_unique<SparseAttention>(with_pages);
  };
}

AttentionCase CaseOf(Codec codec, std::vector<int64_t> lengths) {
  return {.n_heads = 6,
          .n_kv_heads = 2,
          .head_dim = 20,
          .codec_k = codec,
          .codec_v = codec,
          .lengths = std::move(lengths),
          .seed = 7};
}

// The bounds of each full page of a kv head. [page][head_dim][2]
using Bounds = std::vector<std::vector<std::array<float, 2>>>;
Bounds BoundsOfPages(const AttentionCase& c, const SequenceData& data, int kv_head) {
  const conform::Tiles16Side side{.part = KvPart::kKey, .codec = c.codec_k, .head_dim = c.head_dim};
  std::vector<std::byte> tile(static_cast<size_t>(side.TileBytes()));
  std::vector<std::byte> stored(static_cast<size_t>(BoundsBytes(c.head_dim)));
  Bounds bounds;
  for (int64_t page = 0; page < c.lengths[0] / 16; ++page) {
    for (int64_t slot = 0; slot < 16; ++slot) {
      const int64_t row = ((page * 16 + slot) * c.n_kv_heads + kv_head) * c.head_dim;
      conform::WriteTiles16Row(side, data.k.data() + row, slot, tile.data());
    }
    conform::WriteTiles16Bounds(side, tile.data(), stored.data());
    auto& of_page = bounds.emplace_back();
    for (int d = 0; d < c.head_dim; ++d) {
      uint16_t pair[2];
      std::memcpy(pair, stored.data() + 4 * d, 4);
      of_page.push_back({Bf16ToF32(pair[0]), Bf16ToF32(pair[1])});
    }
  }
  return bounds;
}

// The pages that a query and kv head read, from the words of sparse_attention.h: the first that it
// sees, its own, and of those between the best by what their keys' bounds allow.
std::set<int64_t> PlainChoice(const AttentionCase& c, const SequenceData& data,
                              const Bounds& bounds, int64_t pos, int kv_head, int64_t n_pages) {
  const auto dim = static_cast<size_t>(c.head_dim);
  const int64_t first = c.Spec().FirstKey(pos) / 16;
  const int64_t own = pos / 16;
  std::vector<std::pair<double, int64_t>> scores;  // the largest has the lowest number
  for (int64_t page = first + 1; page < own; ++page) {
    double best = -HUGE_VAL;
    const int group = c.n_heads / c.n_kv_heads;
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      double score = 0.0;
      for (size_t d = 0; d < dim; ++d) {
        const auto& [least, most] = bounds[static_cast<size_t>(page)][d];
        const double q = double{data.q[static_cast<size_t>(pos * c.n_heads + head) * dim + d]};
        score += std::max(q * double{least}, q * double{most});
      }
      if (!c.alibi_slopes.empty()) {
        const double slope = double{c.alibi_slopes[static_cast<size_t>(head)]};
        score = double{c.Spec().scale} * score - slope * static_cast<double>(pos - page * 16 - 15);
      }
      best = std::max(best, score);
    }
    scores.emplace_back(-best, page);
  }
  std::ranges::sort(scores);
  std::set<int64_t> chosen = {first, own};
  for (const auto& [score, page] : scores) {
    if (std::ssize(chosen) < n_pages) chosen.insert(page);
  }
  return chosen;
}

class SparseTest : public testing::TestWithParam<IsaLevel> {
 protected:
  AttentionResult Run(const AttentionCase& c, const MakeAttention& attention, int threads,
                      const std::vector<Step>& steps,
                      const std::vector<CaptureRequest>& captures = {}) const {
    AttentionResult result = Workbench(c, attention, ScatteredStore::Create, GetParam(), threads)
                                 .Run(MakeData(c), steps, captures);
    EXPECT_FALSE(result.out.empty()) << c.Describe();
    return result;
  }

  // That every query of the case reads the pages of the plain choice and no others, as far as
  // probabilities show it.
  void ExpectPlainChoice(const AttentionCase& c, int64_t n_pages) const {
    std::vector<CaptureRequest> captures;
    for (int64_t pos = 0; pos < c.lengths[0]; pos += 29) {
      for (int head = 0; head < c.n_heads; ++head) captures.push_back({0, pos, head});
    }
    const AttentionResult got = Run(c, SparseOf(n_pages), 2, WholeSteps(c), captures);
    ASSERT_EQ(got.captured.size(), captures.size());
    const std::vector<SequenceData> data = MakeData(c);
    std::vector<Bounds> bounds;
    for (int head = 0; head < c.n_kv_heads; ++head) {
      bounds.push_back(BoundsOfPages(c, data[0], head));
    }
    for (size_t i = 0; i < captures.size(); ++i) {
      const int64_t pos = captures[i].pos;
      std::set<int64_t> read;
      for (int64_t token = 0; token <= pos; ++token) {
        if (got.captured[i][static_cast<size_t>(token)] > 0.0F) read.insert(token / 16);
      }
      const int kv_head = captures[i].head / (c.n_heads / c.n_kv_heads);
      EXPECT_EQ(read, PlainChoice(c, data[0], bounds[static_cast<size_t>(kv_head)], pos, kv_head,
                                  n_pages))
          << c.Describe() << ", query " << pos << ", head " << captures[i].head;
    }
  }
};

TEST_P(SparseTest, HasTheBitsOfFlashWhereAllPagesFit) {
  for (const Codec codec : kCodecs) {
    AttentionCase c = CaseOf(codec, {700, 31});
    for (const int64_t window : {0, 100}) {
      c.window = window;
      const AttentionResult flash = Run(c, CreateFlashAttention, 1, WholeSteps(c));
      EXPECT_EQ(FindBitDifference(Run(c, SparseOf(44), 3, WholeSteps(c)).out, flash.out), "");
      // A window of 100 keys lies in 8 pages at most.
      if (window == 0) continue;
      EXPECT_EQ(FindBitDifference(Run(c, SparseOf(8), 1, WholeSteps(c)).out, flash.out), "");
    }
  }
}

// Up to the pages that a query may read it sees them all; from there on it does not.
TEST_P(SparseTest, ReadsLessOnlyWhereThereIsMore) {
  const AttentionCase c = CaseOf(Codec::kF32, {200});
  const AttentionResult flash = Run(c, CreateFlashAttention, 1, WholeSteps(c));
  const AttentionResult sparse = Run(c, SparseOf(5), 1, WholeSteps(c));
  const auto width = static_cast<size_t>(c.n_heads * c.head_dim);
  const auto differs = [&](size_t pos) {
    return !std::equal(flash.out[0].begin() + static_cast<std::ptrdiff_t>(pos * width),
                       flash.out[0].begin() + static_cast<std::ptrdiff_t>((pos + 1) * width),
                       sparse.out[0].begin() + static_cast<std::ptrdiff_t>(pos * width));
  };
  for (size_t pos = 0; pos < 200; ++pos) EXPECT_EQ(differs(pos), pos >= 80) << pos;
}

TEST_P(SparseTest, ReadsThePagesOfAPlainChoice) {
  for (const Codec codec : kCodecs) {
    for (const int64_t n_pages : {2, 3, 7}) ExpectPlainChoice(CaseOf(codec, {330}), n_pages);
  }
  AttentionCase c = CaseOf(Codec::kBf16, {330});
  c.window = 150;
  ExpectPlainChoice(c, 4);
  c.chunks = true;
  ExpectPlainChoice(c, 4);
  c = CaseOf(Codec::kF32, {330});
  c.alibi_slopes = {0.01F, 0.02F, 0.04F, 0.08F, 0.1F, 0.12F};
  ExpectPlainChoice(c, 4);
  c = CaseOf(Codec::kF32, {330});
  c.sinks = {0.0F, 1.0F, -1.0F, 0.5F, 0.2F, 0.1F};
  c.soft_cap = 3.0F;
  ExpectPlainChoice(c, 4);
}

// What flash gives to the tokens that it did not read.
TEST_P(SparseTest, TellsWhatItMissed) {
  std::vector<AttentionCase> cases(3, CaseOf(Codec::kBf16, {330, 70}));
  cases[1].window = 150;
  cases[2].sinks = {0.0F, 1.0F, -1.0F, 0.5F, 0.2F, 0.1F};
  for (const AttentionCase& c : cases) {
    std::vector<CaptureRequest> captures;
    for (const int64_t pos : {30, 80, 200, 329}) {
      for (int head = 0; head < c.n_heads; ++head) captures.push_back({0, pos, head});
    }
    const AttentionResult flash = Run(c, CreateFlashAttention, 1, WholeSteps(c), captures);
    const Workbench bench(c, SparseOf(4, true), ScatteredStore::Create, GetParam(), 2);
    ASSERT_NE(bench.rig, nullptr);
    EXPECT_EQ(std::ranges::count(bench.rig->backend().features(), kFeatureMissed), 1);
    const auto sparse =
        bench.rig->Run(MakeData(c), WholeSteps(c), {.captures = captures, .missed = true});
    ASSERT_TRUE(sparse.ok()) << sparse.status();
    for (size_t i = 0; i < captures.size(); ++i) {
      double missed = 0.0;
      for (size_t token = 0; token < flash.captured[i].size(); ++token) {
        if (sparse->captured[i][token] == 0.0F) missed += double{flash.captured[i][token]};
      }
      const auto at = static_cast<size_t>(captures[i].pos * c.n_heads + captures[i].head);
      EXPECT_NEAR(sparse->missed[0][at], missed, 1e-5) << c.Describe() << ", " << captures[i].pos;
      EXPECT_EQ(missed > 0.0, captures[i].pos > 64) << captures[i].pos;
    }
    EXPECT_TRUE(std::ranges::all_of(std::span(sparse->missed[1]).first(64U * 6U),
                                    [](float share) { return share == 0.0F; }));
  }
}

// A page of keys like another one's is as good: the earlier one is read.
TEST_P(SparseTest, TakesTheEarlierOfEqualPages) {
  const AttentionCase c{.n_heads = 1, .n_kv_heads = 1, .head_dim = 3, .lengths = {180}};
  auto data = MakeData(c);
  std::ranges::fill(data[0].k, 0.25F);
  const std::vector<CaptureRequest> captures = {{0, 179, 0}};
  const AttentionResult got = Workbench(c, SparseOf(5), ScatteredStore::Create, GetParam(), 1)
                                  .Run(data, WholeSteps(c), captures);
  ASSERT_EQ(got.captured.size(), 1U);
  for (int64_t token = 0; token < 180; ++token) {
    const bool read = token / 16 <= 3 || token / 16 == 11;
    EXPECT_EQ(got.captured[0][static_cast<size_t>(token)] > 0.0F, read) << token;
  }
}

TEST_P(SparseTest, HasOneSetOfBitsForAllStepsThreadsAndStores) {
  std::mt19937 random(3);
  for (const Codec codec : kCodecs) {
    const AttentionCase c = CaseOf(codec, {300, 90, 133});
    const AttentionResult whole = Run(c, SparseOf(6), 1, WholeSteps(c));
    for (const int threads : {1, 3}) {
      for (const auto& steps : {RandomSteps(c, &random), LastTokenSteps(c, 3), TokenSteps(c)}) {
        EXPECT_EQ(FindBitDifference(Run(c, SparseOf(6), threads, steps).out, whole.out), "");
      }
    }
    EXPECT_EQ(FindBitDifference(Workbench(c, SparseOf(6), CreateContiguousStore, GetParam(), 2)
                                    .Run(MakeData(c), RandomSteps(c, &random))
                                    .out,
                                whole.out),
              "");
  }
}

TEST_P(SparseTest, DoesWhatABackendWithARuleMust) {
  conform::AttentionSubject subject{.settings = {.isa = GetParam(), .quick = true},
                                    .make = SparseOf(3, true),
                                    .rule = std::nullopt};
  subject.other_stores.emplace_back("contiguous", CreateContiguousStore);
  EXPECT_THAT(conform::CheckAttention(subject), IsEmpty());
}

TEST_P(SparseTest, IsTheFormulaWhereAllPagesFit) {
  const conform::AttentionSubject subject{.settings = {.isa = GetParam(), .quick = true},
                                          .make = SparseOf(64)};
  EXPECT_THAT(conform::CheckAttention(subject), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Isa, SparseTest, testing::ValuesIn(SupportedIsaLevels()),
                         [](const auto& info) { return std::string(IsaName(info.param)); });

TEST(SparseBackend, RefusesWhatItCannotDo) {
  const std::unique_ptr<Executor> executor = MakeExecutor(1);
  PluginContext context;
  context.executor = executor.get();
  const std::unique_ptr<AttentionBackend> backend = *SparseOf(4)(context);
  AttentionSpec spec{
      .n_heads = 8, .n_kv_heads = 2, .head_dim = 64, .v_head_dim = 64, .scale = 0.125F};
  EXPECT_TRUE(backend->Supports(spec, {.layout = kLayoutTiles16Bounds}).ok());
  const absl::Status no_bounds = backend->Supports(spec, {.layout = kLayoutTiles16});
  EXPECT_EQ(ExitCode(no_bounds), 4);
  EXPECT_EQ(no_bounds.message(),
            "attention 'sparse' cannot do cache layout 'tiles16'; it does tiles16_bounds");
  EXPECT_EQ(std::ranges::count(backend->features(), kFeatureSlots), 0);
  EXPECT_EQ(std::ranges::count(backend->features(), kFeatureMissed), 0);  // it does not measure
  const std::vector<float> slopes(8, 0.5F);
  spec.alibi_slopes = slopes;
  spec.soft_cap = 20.0F;
  const absl::Status both = backend->Supports(spec, {.layout = kLayoutTiles16Bounds});
  EXPECT_EQ(ExitCode(both), 4);
  EXPECT_THAT(std::string(both.message()), HasSubstr("soft cap together with ALiBi"));
}

}  // namespace
}  // namespace ng
