#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "core/machine/executor.h"
#include "ng/half.h"
#include "ng/tiles16.h"
#include "plugins/cache/contiguous/contiguous_store.h"

namespace ng {
namespace {

using testing::HasSubstr;

constexpr std::string_view kLayouts[] = {kLayoutTiles16};

CacheSpec SmallSpec() {
  return {.n_layers = 2,
          .n_kv_heads = 2,
          .head_dim = 5,
          .max_tokens = 20,
          .max_sequences = 2,
          .layouts = kLayouts};
}

class ContiguousStoreTest : public testing::Test {
 protected:
  ContiguousStoreTest() { context_.executor = executor_.get(); }

  std::unique_ptr<CacheStore> Make(const CacheSpec& spec) {
    auto store = CreateContiguousStore(context_, spec);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  std::unique_ptr<Executor> executor_ = MakeExecutor(2);
  PluginContext context_;
};

TEST_F(ContiguousStoreTest, PlansWhatItReserves) {
  const auto plan = PlanContiguousStore(context_, SmallSpec());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->layout, kLayoutTiles16);
  // 2 sequences x 2 layers x (K + V) x 2 heads x 2 tiles x 16 tokens x 5 x 4 bytes.
  EXPECT_EQ(plan->bytes, 2 * 2 * 2 * 2 * 2 * 16 * 5 * 4);
  EXPECT_EQ(plan->bytes_per_token, 2 * 2 * 2 * 5 * 4);
  const CachePlan made = Make(SmallSpec())->plan();
  EXPECT_EQ(made.bytes, plan->bytes);
  EXPECT_EQ(made.bytes_per_token, plan->bytes_per_token);
}

TEST_F(ContiguousStoreTest, PlansIntegersWithTheirScales) {
  CacheSpec spec = SmallSpec();
  spec.codec_k = Codec::kInt8;
  spec.codec_v = Codec::kInt4;
  const auto plan = PlanContiguousStore(context_, spec);
  ASSERT_TRUE(plan.ok());
  // A tile is 16 scales and 16 tokens: keys of 5 dimensions padded to 8, values of 5 half bytes.
  const int64_t keys = 16 * 4 + 16 * 8;
  const int64_t values = 16 * 4 + 16 * 5 / 2;
  const int64_t side_of_two_heads = 2 * 2 * keys + (2 * 2 * values + 63) / 64 * 64;
  EXPECT_EQ(plan->bytes, 2 * 2 * side_of_two_heads);
  EXPECT_EQ(plan->bytes_per_token, (2 * 2 * (keys + values) + 15) / 16);
}

TEST_F(ContiguousStoreTest, HasOneAlignedPageForEachSequence) {
  const auto store = Make(SmallSpec());
  const SequenceId a = *store->Open(20);
  const SequenceId b = *store->Open(20);
  for (const SequenceId id : {a, b}) {
    const KvView view = store->View(1, id, 0);
    EXPECT_EQ(view.layout, kLayoutTiles16);
    ASSERT_EQ(view.pages.size(), 1U);
    EXPECT_EQ(view.page_tokens, 32);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.pages[0]) % 64, 0U);
    EXPECT_EQ(view.k.offset % 64, 0);
    EXPECT_EQ(view.v.offset % 64, 0);
  }
  EXPECT_NE(store->View(0, a, 0).pages[0], store->View(0, b, 0).pages[0]);
}

TEST_F(ContiguousStoreTest, TakesTheStoresChoiceOfLayout) {
  constexpr std::string_view kOthers[] = {"tiles99", kLayoutAny};
  CacheSpec spec = SmallSpec();
  spec.layouts = kOthers;
  EXPECT_EQ(Make(spec)->plan().layout, kLayoutTiles16);
}

TEST_F(ContiguousStoreTest, RefusesUnknownLayoutsNamingItsOwn) {
  constexpr std::string_view kOthers[] = {"tiles99"};
  CacheSpec spec = SmallSpec();
  spec.layouts = kOthers;
  const absl::Status status = PlanContiguousStore(context_, spec).status();
  EXPECT_EQ(ExitCode(status), 4);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("tiles99"), HasSubstr("tiles16")));
}

TEST_F(ContiguousStoreTest, RefusesUnknownCodecsNamingItsOwn) {
  CacheSpec spec = SmallSpec();
  spec.codec_v = static_cast<Codec>(9);
  const absl::Status status = PlanContiguousStore(context_, spec).status();
  EXPECT_EQ(ExitCode(status), 4);
  EXPECT_THAT(
      std::string(status.message()),
      testing::AllOf(HasSubstr("values"), HasSubstr("9"), HasSubstr("f32, bf16, f16, int8, int4")));
}

TEST_F(ContiguousStoreTest, RefusesEmptyShapes) {
  CacheSpec spec = SmallSpec();
  spec.n_kv_heads = 0;
  EXPECT_THAT(std::string(PlanContiguousStore(context_, spec).status().message()),
              HasSubstr("n_kv_heads = 0"));
  spec = SmallSpec();
  spec.max_tokens = -1;
  EXPECT_THAT(std::string(PlanContiguousStore(context_, spec).status().message()),
              HasSubstr("max_tokens = -1"));
}

TEST_F(ContiguousStoreTest, RefusesSizesThatOverflow) {
  for (const int64_t max_tokens : {std::numeric_limits<int64_t>::max(), int64_t{1} << 60}) {
    CacheSpec spec = SmallSpec();
    spec.max_tokens = max_tokens;
    const absl::Status status = PlanContiguousStore(context_, spec).status();
    EXPECT_EQ(ExitCode(status), 5) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(max_tokens)));
  }
}

TEST_F(ContiguousStoreTest, RefusesMoreThanTheSystemGives) {
  CacheSpec spec = SmallSpec();
  spec.max_tokens = int64_t{1} << 50;  // fits an int64, not an address space
  const auto plan = PlanContiguousStore(context_, spec);
  ASSERT_TRUE(plan.ok());
  const absl::Status status = CreateContiguousStore(context_, spec).status();
  EXPECT_EQ(ExitCode(status), 5) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(plan->bytes)));
}

TEST_F(ContiguousStoreTest, RefusesNegativeAndExcessiveCapacities) {
  const auto store = Make(SmallSpec());
  EXPECT_EQ(ExitCode(store->Open(-1).status()), 5);
  const absl::Status status = store->Open(21).status();
  EXPECT_EQ(ExitCode(status), 5);
  EXPECT_THAT(std::string(status.message()), testing::AllOf(HasSubstr("21"), HasSubstr("20")));
}

TEST_F(ContiguousStoreTest, WritesNothingOfAStepThatOverflows) {
  CacheSpec spec = SmallSpec();
  const auto store = Make(spec);
  const SequenceId roomy = *store->Open(20);
  const SequenceId tight = *store->Open(1);
  std::vector<float> rows(3 * 2 * 5, 2.0F);
  const TensorView<const float, 3> tensor(rows.data(), {3, 2, 5});
  const SequenceRows one{.sequence = roomy, .start_pos = 0, .n_tokens = 1, .row_begin = 0};
  ASSERT_TRUE(store->Append(0, {&one, 1}, tensor, tensor).ok());
  for (float& x : rows) x = 3.0F;
  const SequenceRows both[] = {one,
                               {.sequence = tight, .start_pos = 0, .n_tokens = 2, .row_begin = 1}};
  const absl::Status status = store->Append(0, both, tensor, tensor);
  EXPECT_EQ(status,
            LimitError("cache overflow: sequence 1 holds 0 of 1 tokens, cannot take 2 more"));
  std::vector<float> row(5);
  store->CopyRow(KvPart::kKey, store->View(0, roomy, 1), 0, 0, row.data());
  EXPECT_THAT(row, testing::Each(2.0F));
}

TEST_F(ContiguousStoreTest, RefusesRowsThatLeaveAGap) {
  const auto store = Make(SmallSpec());
  const SequenceRows gap{
      .sequence = *store->Open(20), .start_pos = 1, .n_tokens = 1, .row_begin = 0};
  std::vector<float> rows(2 * 5);
  const TensorView<const float, 3> tensor(rows.data(), {1, 2, 5});
  EXPECT_EQ(ExitCode(store->Append(0, {&gap, 1}, tensor, tensor)), 1);
  EXPECT_EQ(ExitCode(store->Commit({&gap, 1})), 1);
}

// Large enough that Append spreads the rows over threads.
TEST_F(ContiguousStoreTest, WritesLongPromptsInParallel) {
  CacheSpec spec{.n_layers = 1,
                 .n_kv_heads = 3,
                 .head_dim = 64,
                 .max_tokens = 300,
                 .max_sequences = 1,
                 .codec_v = Codec::kBf16,
                 .layouts = kLayouts};
  const auto store = Make(spec);
  std::vector<float> values(300 * 3 * 64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const TensorView<const float, 3> tensor(values.data(), {300, 3, 64});
  const SequenceRows rows{.sequence = *store->Open(300), .start_pos = 0, .n_tokens = 300};
  ASSERT_TRUE(store->Append(0, {&rows, 1}, tensor, tensor).ok());
  ASSERT_TRUE(store->Commit({&rows, 1}).ok());
  const KvView view = store->View(0, rows.sequence, 300);
  float k[64];
  float v[64];
  for (int64_t token = 0; token < 300; ++token) {
    for (int head = 0; head < 3; ++head) {
      store->CopyRow(KvPart::kKey, view, token, head, k);
      store->CopyRow(KvPart::kValue, view, token, head, v);
      for (int d = 0; d < 64; ++d) {
        const float want = *(tensor.Row(token, head) + d);
        ASSERT_EQ(k[d], want);
        ASSERT_EQ(v[d], Bf16ToF32(F32ToBf16(want)));
      }
    }
  }
}

// What is exact, what rounds to even, and the smallest and largest of numbers.
TEST(TileWriter, QuantisesRowsAsTheLayoutSays) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kTiny = std::numeric_limits<float>::min();
  struct Row {
    Codec codec;
    std::vector<float> written;
    std::vector<float> read;
  };
  const Row rows[] = {
      {Codec::kInt8, {127.0F, -127.0F, 0.5F, 1.5F, -0.4F}, {127.0F, -127.0F, 0.0F, 2.0F, 0.0F}},
      {Codec::kInt8, {0.0F, -0.0F, 0.0F}, {0.0F, 0.0F, 0.0F}},
      {Codec::kInt8, {kTiny, -kTiny, 0.0F}, {0.0F, 0.0F, 0.0F}},
      {Codec::kInt8, {kTiny * 127.0F, kTiny}, {kTiny * 127.0F, kTiny}},
      {Codec::kInt8, {1.0F, kNaN, 2.0F}, {kNaN, kNaN, kNaN}},
      {Codec::kInt8, {1.0F, -kInfinity, 2.0F}, {kNaN, kNaN, kNaN}},
      {Codec::kInt4, {-8.0F, 7.0F, 8.0F, 2.5F, -3.5F}, {-8.0F, 7.0F, 7.0F, 2.0F, -4.0F}},
      {Codec::kInt4, {8.0F, -8.0F, 7.0F, 1.0F}, {8.0F, -7.0F, 7.0F, 1.0F}},
      {Codec::kInt4, {kInfinity, 1.0F}, {kNaN, kNaN}},
  };
  for (const Row& row : rows) {
    const auto dim = static_cast<int>(row.written.size());
    const TileRows source{.rows = row.written.data(), .row_stride = dim, .n_rows = 1, .slot = 6};
    const TileWriter writer(row.codec, dim, IsaLevel::kScalar);
    std::vector<std::byte> keys(static_cast<size_t>(TileWriter::KeyTileBytes(row.codec, dim)));
    std::vector<std::byte> values(static_cast<size_t>(TileWriter::ValueTileBytes(row.codec, dim)));
    writer.WriteKeys(source, keys.data());
    writer.WriteValues(source, values.data());
    for (int d = 0; d < dim; ++d) {
      const float want = row.read[static_cast<size_t>(d)];
      EXPECT_THAT(writer.ReadKey(keys.data(), 6, d), testing::NanSensitiveFloatEq(want)) << d;
      EXPECT_THAT(writer.ReadValue(values.data(), 6, d), testing::NanSensitiveFloatEq(want)) << d;
    }
  }
}

TEST(TileWriter, NarrowsToF16AlikeOnEveryIsaLevel) {
  const float specials[] = {0.0F,
                            -0.0F,
                            1.0F,
                            65504.0F,
                            65519.9F,
                            65520.0F,
                            1e-8F,
                            6e-8F,
                            5.96e-8F,
                            2.98e-8F,
                            1e-5F,
                            -3.3333333F,
                            1e30F,
                            -1e30F,
                            1.0009765F,
                            1.00048828F,
                            2049.0F,
                            2051.0F,
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
  constexpr int kDim = std::size(specials);
  const TileRows source{.rows = specials, .row_stride = kDim, .n_rows = 1, .slot = 3};
  std::vector<std::byte> want;
  for (const IsaLevel isa : SupportedIsaLevels()) {
    std::vector<std::byte> tile(static_cast<size_t>(TileWriter::ValueTileBytes(Codec::kF16, kDim)));
    TileWriter(Codec::kF16, kDim, isa).WriteValues(source, tile.data());
    if (isa == IsaLevel::kScalar) want = tile;
    EXPECT_EQ(tile, want) << IsaName(isa);
  }
}

}  // namespace
}  // namespace ng
