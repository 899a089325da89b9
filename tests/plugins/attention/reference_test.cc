#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine/executor.h"
#include "ng/conform/attention.h"
#include "ng/conform/scattered_store.h"
#include "plugins/attention/reference/reference_attention.h"
#include "plugins/cache/contiguous/contiguous_store.h"
#include "tests/support/sanitized.h"

namespace ng {
namespace {

using conform::AttentionCase;
using conform::AttentionRig;
using conform::CheckAttention;
using conform::FindBitDifference;
using conform::MakeCache;
using conform::MakeData;
using conform::RandomSteps;
using conform::ScatteredStore;
using testing::HasSubstr;
using testing::IsEmpty;

// With more shapes, and its own tolerance: `ng-conform ng_attention_reference.so`, by hand.
TEST(ReferenceAttention, Conforms) {
  EXPECT_THAT(CheckAttention({.settings = {.quick = true},
                              .make = CreateReferenceAttention,
                              .tolerance = 1e-6F,
                              .int_tolerance = 1e-6F}),
              IsEmpty());
}

TEST(ReferenceAttention, HasTheSameBitsOverEveryStoreBatchAndThreadCount) {
  const AttentionCase c{.n_heads = 6,
                        .n_kv_heads = 3,
                        .head_dim = 19,
                        .codec_k = Codec::kF16,
                        .codec_v = Codec::kBf16,
                        .lengths = {70, 16, 33},
                        .seed = 5};
  const auto data = MakeData(c);
  std::mt19937 random(3);
  std::vector<std::vector<float>> first;
  for (const int threads : {1, 2, 4}) {
    const auto executor = MakeExecutor(threads);
    PluginContext context;
    context.executor = executor.get();
    for (const MakeCache& cache :
         {MakeCache(ScatteredStore::Create), MakeCache(CreateContiguousStore)}) {
      const auto rig = AttentionRig::Make(c, CreateReferenceAttention, cache, context);
      ASSERT_TRUE(rig.ok()) << rig.status();
      const auto result = (*rig)->Run(data, RandomSteps(c, &random));
      ASSERT_TRUE(result.ok()) << result.status();
      if (first.empty()) first = result->out;
      EXPECT_EQ(FindBitDifference(result->out, first), "");
    }
  }
}

TEST(ReferenceAttention, RefusesWhatItDoesNotImplementNamingWhatItDoes) {
  const auto executor = MakeExecutor(1);
  PluginContext context;
  context.executor = executor.get();
  const auto backend = *CreateReferenceAttention(context);
  AttentionSpec spec{.n_heads = 4, .n_kv_heads = 2, .head_dim = 8, .v_head_dim = 8, .scale = 1.0F};
  EXPECT_TRUE(backend->Supports(spec, {.layout = "whatever a store has"}).ok());
  spec.v_head_dim = 0;
  EXPECT_THAT(std::string(backend->Supports(spec, {}).message()), HasSubstr("v_head_dim = 0"));
  spec.v_head_dim = 8;
  spec.n_heads = 5;
  EXPECT_THAT(std::string(backend->Supports(spec, {}).message()), HasSubstr("n_heads = 5"));
}

}  // namespace
}  // namespace ng
