#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine/executor.h"
#include "ng/conform/plain_tiles.h"
#include "ng/conform/scattered_store.h"
#include "plugins/attention/flash/flash_attention.h"
#include "plugins/attention/flash/flash_kernel.h"
#include "plugins/attention/reference/reference_attention.h"
#include "plugins/cache/contiguous/contiguous_store.h"
#include "tests/plugins/attention/flash_testing.h"

namespace ng {
namespace {

using conform::FindBitDifference;
using conform::FindDifference;
using conform::MakeData;
using conform::RandomSteps;
using conform::RoundToCodec;
using conform::ScatteredStore;
using conform::WholeSteps;
using testing::HasSubstr;

class FlashTest : public testing::TestWithParam<IsaLevel> {
 protected:
  AttentionResult Flash(const AttentionCase& c, const std::vector<SequenceData>& data) const {
    return Workbench(c, CreateFlashAttention, ScatteredStore::Create, GetParam(), 1)
        .Run(data, WholeSteps(c));
  }

  // Of one head, token `bad` being infinite: every query from there on, and no bit of one before.
  void ExpectNanFrom(const AttentionCase& c, int64_t bad, KvPart part) const {
    auto data = MakeData(c);
    const AttentionResult clean = Flash(c, data);
    const auto dim = static_cast<size_t>(c.head_dim);
    for (size_t d = 0; d < dim; ++d) {
      std::vector<float>& rows = part == KvPart::kKey ? data[0].k : data[0].v;
      rows[static_cast<size_t>(bad) * dim + d] = d % 2 == 0
                                                     ? std::numeric_limits<float>::quiet_NaN()
                                                     : std::numeric_limits<float>::infinity();
    }
    const AttentionResult dirty = Flash(c, data);
    ASSERT_EQ(dirty.out.size(), 1U);
    const size_t first_bad = static_cast<size_t>(bad * c.n_heads) * dim;
    for (size_t i = 0; i < dirty.out[0].size(); ++i) {
      if (i < first_bad) {
        EXPECT_EQ(std::bit_cast<uint32_t>(dirty.out[0][i]),
                  std::bit_cast<uint32_t>(clean.out[0][i]));
      } else {
        EXPECT_FALSE(std::isfinite(dirty.out[0][i])) << c.Describe() << ", element " << i;
      }
    }
  }
};

AttentionCase ArbitraryCase() {
  AttentionCase c;
  c.n_kv_heads = *rc::gen::inRange(1, 4);
  c.n_heads = c.n_kv_heads * *rc::gen::element(1, 2, 3, 4, 7, 9);
  c.head_dim =
      *rc::gen::element(1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 80, 97, 128, 130);
  c.codec_k = *rc::gen::elementOf(std::vector<Codec>(std::begin(kCodecs), std::end(kCodecs)));
  c.codec_v = *rc::gen::elementOf(std::vector<Codec>(std::begin(kCodecs), std::end(kCodecs)));
  const int n_sequences = *rc::gen::inRange(1, 4);
  for (int s = 0; s < n_sequences; ++s) {
    c.lengths.push_back(
        *rc::gen::oneOf(rc::gen::inRange<int64_t>(1, 40),
                        rc::gen::element<int64_t>(15, 16, 17, 31, 32, 33, kSplitKeys - 1,
                                                  kSplitKeys, kSplitKeys + 1, kSplitKeys + 17)));
  }
  c.seed = *rc::gen::arbitrary<uint32_t>();
  return c;
}

// Values against `reference`; bits over chunks, batches, threads, stores and the levels of an
// arithmetic.
TEST_P(FlashTest, MatchesReferenceAndKeepsItsBitsOnRandomShapes) {
  const IsaLevel isa = GetParam();
  EXPECT_TRUE(rc::check([isa] {
    const AttentionCase c = ArbitraryCase();
    const auto data = MakeData(c);
    const int last_sequence = static_cast<int>(c.lengths.size()) - 1;
    const std::vector<CaptureRequest> captures = {
        {.sequence = last_sequence, .pos = c.lengths.back() - 1, .head = c.n_heads - 1},
        {.sequence = 0, .pos = c.lengths.front() / 2, .head = 0}};
    const AttentionResult reference =
        Workbench(c, CreateReferenceAttention, ScatteredStore::Create, isa, 1)
            .Run(data, WholeSteps(c), captures);
    const AttentionResult whole =
        Workbench(c, CreateFlashAttention, ScatteredStore::Create, isa, 1).Run(data, WholeSteps(c));
    RC_ASSERT(!whole.out.empty());
    const float tolerance = Tolerance(c, isa);
    RC_ASSERT(FindDifference(whole.out, reference.out, tolerance) == "");
    const IsaLevel plainest =
        ArithmeticOf(isa).name == ArithmeticOf(IsaLevel::kScalar).name ? IsaLevel::kScalar : isa;
    const AttentionResult plain =
        Workbench(c, CreateFlashAttention, ScatteredStore::Create, plainest, 1)
            .Run(data, WholeSteps(c));
    RC_ASSERT(FindBitDifference(whole.out, plain.out) == "");

    std::mt19937 random(c.seed);
    const AttentionResult chunks = Workbench(c, CreateFlashAttention, CreateContiguousStore, isa, 2)
                                       .Run(data, RandomSteps(c, &random), captures);
    RC_ASSERT(FindBitDifference(chunks.out, whole.out) == "");
    RC_ASSERT(FindDifference(chunks.captured, reference.captured, tolerance) == "");
  }));
}

TEST_P(FlashTest, GivesBackTheValueOfASingleKey) {
  for (const Codec codec : kCodecs) {
    AttentionCase c{
        .n_heads = 3, .n_kv_heads = 1, .head_dim = 37, .codec_v = codec, .lengths = {1}};
    auto data = MakeData(c);
    for (float& x : data[0].v) x = std::round(x * 8.0F);  // exact in every codec of floats
    RoundToCodec(codec, 37, data[0].v.data());
    const AttentionResult result = Flash(c, data);
    ASSERT_EQ(result.out.size(), 1U);
    for (size_t i = 0; i < result.out[0].size(); ++i) {
      if (HasScales(codec)) {
        EXPECT_FLOAT_EQ(result.out[0][i], data[0].v[i % 37]);
      } else {
        EXPECT_EQ(result.out[0][i], data[0].v[i % 37]);
      }
    }
  }
}

TEST_P(FlashTest, AveragesTheValuesOfIdenticalKeys) {
  const int64_t n = kSplitKeys + 44;
  AttentionCase c{.n_heads = 1, .n_kv_heads = 1, .head_dim = 2, .lengths = {n}};
  auto data = MakeData(c);
  for (int64_t j = 0; j < n; ++j) {
    data[0].k[static_cast<size_t>(2 * j)] = 0.5F;
    data[0].k[static_cast<size_t>(2 * j + 1)] = -2.0F;
    data[0].v[static_cast<size_t>(2 * j)] = static_cast<float>(j);
    data[0].v[static_cast<size_t>(2 * j + 1)] = 1.0F;
  }
  const AttentionResult result = Flash(c, data);
  ASSERT_EQ(result.out.size(), 1U);
  for (int64_t j = 0; j < n; ++j) {
    const auto mean = static_cast<float>(j) / 2.0F;
    EXPECT_NEAR(result.out[0][static_cast<size_t>(2 * j)], mean, 1e-5F * (1.0F + mean));
    EXPECT_NEAR(result.out[0][static_cast<size_t>(2 * j + 1)], 1.0F, 1e-6F);
  }
}

// A NaN or an infinity in a token may show in later queries only, though they share its tile; and
// there it must, whatever the codec.
TEST_P(FlashTest, ShowsATokensNanInLaterQueriesOnly) {
  for (const Codec codec : kCodecs) {
    for (const int64_t bad :
         {int64_t{5}, int64_t{16}, int64_t{kSplitKeys - 1}, int64_t{kSplitKeys}}) {
      const AttentionCase c{.n_heads = 2,
                            .n_kv_heads = 1,
                            .head_dim = 17,
                            .codec_k = codec,
                            .codec_v = codec,
                            .lengths = {kSplitKeys + 20}};
      ExpectNanFrom(c, bad, KvPart::kKey);
      ExpectNanFrom(c, bad, KvPart::kValue);
    }
  }
}

// A query that is not finite gives nothing that is.
TEST_P(FlashTest, ShowsAQuerysNan) {
  for (const Codec codec : kCodecs) {
    const AttentionCase c{.n_heads = 7,
                          .n_kv_heads = 1,
                          .head_dim = 9,
                          .codec_k = codec,
                          .codec_v = codec,
                          .lengths = {kSplitKeys + 3}};
    auto data = MakeData(c);
    const size_t width = 7 * 9;
    const size_t bad = data[0].q.size() - width;  // the last token, head 0
    data[0].q[bad + 4] = std::numeric_limits<float>::quiet_NaN();
    const AttentionResult result = Flash(c, data);
    ASSERT_EQ(result.out.size(), 1U);
    for (size_t i = 0; i < result.out[0].size(); ++i) {
      EXPECT_EQ(std::isnan(result.out[0][i]), i >= bad && i < bad + 9) << i;
    }
  }
}

// Scores that underflow beside the largest must leave weights of zero and no NaN.
TEST_P(FlashTest, SurvivesScoresFarApart) {
  AttentionCase c{.n_heads = 1, .n_kv_heads = 1, .head_dim = 1, .lengths = {2 * kSplitKeys + 3}};
  auto data = MakeData(c);
  for (float& x : data[0].q) x = 1e20F;
  for (size_t j = 0; j < data[0].k.size(); ++j) data[0].k[j] = j == 300 ? 1e18F : -1e30F;
  const AttentionResult result = Flash(c, data);
  ASSERT_EQ(result.out.size(), 1U);
  EXPECT_EQ(result.out[0].back(), data[0].v[300]);
}

// Sums of integers fit 32 bits: at 600 dimensions 32767 * 127 each would not.
TEST_P(FlashTest, SumsWideHeadsOfIntegers) {
  for (const Codec codec : {Codec::kInt8, Codec::kInt4}) {
    AttentionCase c{.n_heads = 8, .n_kv_heads = 1, .head_dim = 600, .lengths = {3}};
    c.codec_k = c.codec_v = codec;
    auto data = MakeData(c);
    for (float& x : data[0].q) x = 1.0F;
    // The second key is the best by far: its scores are largest in every dimension.
    for (size_t j = 0; j < data[0].k.size(); ++j) data[0].k[j] = j / 600 == 1 ? 7.0F : -7.0F;
    for (size_t j = 0; j < data[0].v.size(); ++j) data[0].v[j] = j / 600 == 1 ? 7.0F : 0.0F;
    const AttentionResult result = Flash(c, data);
    ASSERT_EQ(result.out.size(), 1U);
    EXPECT_NEAR(result.out[0].back(), 7.0F, 0.01F) << CodecName(codec);
  }
}

// Of floats, values that are read out of keys have the bits that they have apart.
TEST_P(FlashTest, ReadsTheSameValuesOutOfKeys) {
  for (const Codec codec : {Codec::kF32, Codec::kBf16, Codec::kF16}) {
    for (const int v_head_dim : {32, 41}) {
      AttentionCase c{.n_heads = 8, .n_kv_heads = 1, .head_dim = 52, .lengths = {300, 7}};
      c.codec_k = c.codec_v = codec;
      c.v_head_dim = v_head_dim;
      c.v_in_k = true;
      const auto data = MakeData(c);
      const AttentionResult in_keys = Flash(c, data);
      c.v_in_k = false;
      EXPECT_EQ(in_keys.out, Flash(c, data).out) << CodecName(codec) << " " << v_head_dim;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, FlashTest, testing::ValuesIn(SupportedIsaLevels()),
                         [](const auto& info) { return std::string(IsaName(info.param)); });

class FlashBackendTest : public testing::Test {
 protected:
  FlashBackendTest() {
    PluginContext context;
    context.executor = executor_.get();
    backend_ = *CreateFlashAttention(context);
  }

  std::string Refusal(const AttentionSpec& spec, const CacheFormat& format) const {
    const absl::Status status = backend_->Supports(spec, format);
    EXPECT_EQ(ExitCode(status), 4);
    return std::string(status.message());
  }

  std::unique_ptr<Executor> executor_ = MakeExecutor(2);
  std::unique_ptr<AttentionBackend> backend_;
  AttentionSpec spec_{
      .n_heads = 8, .n_kv_heads = 2, .head_dim = 64, .v_head_dim = 64, .scale = 0.125F};
  CacheFormat format_{.layout = kLayoutTiles16};
};

TEST_F(FlashBackendTest, RefusesWhatItDoesNotImplementNamingWhatItDoes) {
  EXPECT_TRUE(backend_->Supports(spec_, format_).ok());
  EXPECT_THAT(backend_->features(),
              testing::ElementsAre("window", "soft_cap", "sinks", "alibi", "query_temperature",
                                   "chunked_window", "v_head_dim", "v_in_k", "slots", "head_slots",
                                   "attended"));
  AttentionSpec spec = spec_;
  spec.v_head_dim = 1025;
  EXPECT_THAT(Refusal(spec, format_), HasSubstr("v_head_dim = 1025"));
  spec = spec_;
  spec.head_dim = 1025;
  EXPECT_THAT(Refusal(spec, format_), testing::AllOf(HasSubstr("1025"), HasSubstr("1 to 1024")));
  spec = spec_;
  spec.n_heads = 7;
  EXPECT_THAT(Refusal(spec, format_), HasSubstr("n_heads = 7"));
  EXPECT_THAT(Refusal(spec_, {.layout = "rows"}),
              testing::AllOf(HasSubstr("rows"), HasSubstr("tiles16")));
  EXPECT_THAT(Refusal(spec_, {.layout = kLayoutTiles16, .codec_v = static_cast<Codec>(7)}),
              testing::AllOf(HasSubstr("7"), HasSubstr("f32, bf16, f16, int8, int4")));
}

TEST_F(FlashBackendTest, RefusesAViewThatIsTooShort) {
  const SequenceRows rows{.sequence = 0, .start_pos = 4, .n_tokens = 1, .row_begin = 0};
  const std::unique_ptr<AttentionPlan> plan = *backend_->NewPlan(spec_);
  ASSERT_TRUE(backend_->Plan({&rows, 1}, *plan).ok());
  KvView view;
  view.layout = kLayoutTiles16;
  view.page_tokens = 16;
  view.length = 4;
  AttentionRun run;
  run.rows = {&rows, 1};
  run.views = {&view, 1};
  EXPECT_EQ(ExitCode(backend_->Run(*plan, run)), 1);
}

}  // namespace
}  // namespace ng
