// G1: for one backend, codec, weight type and ISA level, logits are the same bits however the
// tokens are split into steps, whatever else is in the batch, and for every number of threads.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <xmmintrin.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "ng/isa.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

using Cell = std::tuple<std::string, std::string, std::string>;  // attention, codec, weights

class BitContract : public ::testing::TestWithParam<Cell> {
 protected:
  static void SetUpTestSuite() {
    dir_ = new test::TempDir;
    test::TinyNiels model;
    model.max_positions = 400;  // several key splits
    model.WriteTo(dir_->path());
  }
  static void TearDownTestSuite() {
    delete dir_;
    dir_ = nullptr;
  }

  static std::vector<Completion> Run(const Cell& cell, const std::vector<std::string>& ways,
                                     const std::vector<GenerateRequest>& requests) {
    EngineOptions options;
    options.overrides = {"model.path=" + dir_->path(), "sampler.chain=greedy",
                         "attention.name=" + std::get<0>(cell), "cache.codec=" + std::get<1>(cell),
                         "model.weights=" + std::get<2>(cell)};
    options.overrides.insert(options.overrides.end(), ways.begin(), ways.end());
    const auto engine = Engine::Open(options);
    RC_ASSERT(engine.ok());
    RC_ASSERT((*engine)->Load(Needs(requests)).ok());
    GenerateOptions keep;
    keep.capture_logits = keep.capture_decode_logits = true;
    auto done = (*engine)->Generate(requests, keep);
    RC_ASSERT(done.ok());
    return *std::move(done);
  }

  static GenerateRequest RandomRequest(int64_t longest) {
    const auto length = *rc::gen::inRange<int64_t>(1, longest);
    GenerateRequest request;
    request.prompt_ids = *rc::gen::container<std::vector<int32_t>>(
        static_cast<size_t>(length), rc::gen::inRange<int32_t>(0, 61));
    request.max_new_tokens = *rc::gen::inRange<int64_t>(1, 8);
    return request;
  }

  static test::TempDir* dir_;
};

test::TempDir* BitContract::dir_ = nullptr;

TEST_P(BitContract, HoldsForRandomSplitsBatchesAndThreads) {
  const Cell cell = GetParam();
  const bool passed = rc::check("logits are the same bits", [&] {
    const bool is_long = *rc::gen::weightedElement<bool>({{3, false}, {1, true}});
    std::vector<GenerateRequest> requests;
    const int n_requests = *rc::gen::inRange(1, 4);
    for (int i = 0; i < n_requests; ++i) requests.push_back(RandomRequest(is_long ? 390 : 40));
    const std::vector<std::string> ways = {
        absl::StrCat("run.prefill_chunk=", *rc::gen::inRange(0, 50)),
        absl::StrCat("run.threads=", *rc::gen::inRange(1, 4)),
        absl::StrCat("run.use_cache=",
                     *rc::gen::weightedElement<bool>({{3, true}, {1, false}}) ? "true" : "false"),
        absl::StrCat("cache.name=", *rc::gen::element("contiguous", "paged")),
        absl::StrCat("cache.max_sequences=", *rc::gen::inRange(1, 4))};
    const std::vector<Completion> together = Run(cell, ways, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      const std::vector<Completion> alone = Run(cell, {"run.threads=1"}, {requests[i]});
      RC_ASSERT(alone[0].ids == together[i].ids);
      RC_ASSERT(alone[0].captured.logits == together[i].captured.logits);
      RC_ASSERT(alone[0].captured.decode_logits == together[i].captured.decode_logits);
    }
  });
  EXPECT_TRUE(passed);
}

// Where tokens leave, what is held comes of positions, keys and values alone.
TEST_P(BitContract, HoldsWhereTokensLeaveTheCache) {
  const Cell cell = GetParam();
  const bool passed = rc::check("logits are the same bits", [&] {
    const std::vector<std::string> budget = {
        "cache.name=budget",
        "cache.budget.sinks=1",
        "cache.budget.recent=3",
        "policy.lagkv.lag=5",
        absl::StrCat("cache.budget.tokens=", *rc::gen::inRange(4, 60)),
        absl::StrCat("cache.budget.every=", *rc::gen::inRange(1, 40)),
        absl::StrCat("cache.budget.per=", *rc::gen::element("head", "layer")),
        absl::StrCat("cache.budget.policy=",
                     *rc::gen::element("window", "random", "knorm", "keydiff", "lagkv"))};
    std::vector<GenerateRequest> requests;
    const int n_requests = *rc::gen::inRange(1, 4);
    for (int i = 0; i < n_requests; ++i) requests.push_back(RandomRequest(90));
    std::vector<std::string> ways = {
        absl::StrCat("run.prefill_chunk=", *rc::gen::inRange(0, 50)),
        absl::StrCat("run.threads=", *rc::gen::inRange(1, 4)),
        absl::StrCat("run.use_cache=",
                     *rc::gen::weightedElement<bool>({{3, true}, {1, false}}) ? "true" : "false"),
        absl::StrCat("cache.max_sequences=", *rc::gen::inRange(1, 4))};
    ways.insert(ways.end(), budget.begin(), budget.end());
    const std::vector<Completion> together = Run(cell, ways, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      std::vector<std::string> plain = budget;
      plain.emplace_back("run.threads=1");
      const std::vector<Completion> alone = Run(cell, plain, {requests[i]});
      RC_ASSERT(alone[0].ids == together[i].ids);
      RC_ASSERT(alone[0].captured.logits == together[i].captured.logits);
      RC_ASSERT(alone[0].captured.decode_logits == together[i].captured.decode_logits);
    }
  });
  EXPECT_TRUE(passed);
}

// Where a token reads some pages only, which ones comes of itself and of the keys before it.
TEST_P(BitContract, HoldsWhereSomePagesAreRead) {
  Cell cell = GetParam();
  std::get<0>(cell) = "sparse";
  const bool passed = rc::check("logits are the same bits", [&] {
    const std::string pages = absl::StrCat("attention.sparse.pages=", *rc::gen::inRange(2, 8));
    std::vector<GenerateRequest> requests;
    const int n_requests = *rc::gen::inRange(1, 4);
    for (int i = 0; i < n_requests; ++i) requests.push_back(RandomRequest(390));
    const std::vector<std::string> ways = {
        pages,
        absl::StrCat("run.prefill_chunk=", *rc::gen::inRange(0, 50)),
        absl::StrCat("run.threads=", *rc::gen::inRange(1, 4)),
        absl::StrCat("run.use_cache=",
                     *rc::gen::weightedElement<bool>({{3, true}, {1, false}}) ? "true" : "false"),
        absl::StrCat("cache.name=", *rc::gen::element("contiguous", "paged")),
        absl::StrCat("cache.max_sequences=", *rc::gen::inRange(1, 4))};
    const std::vector<Completion> together = Run(cell, ways, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      const std::vector<Completion> alone = Run(cell, {pages, "run.threads=1"}, {requests[i]});
      RC_ASSERT(alone[0].ids == together[i].ids);
      RC_ASSERT(alone[0].captured.logits == together[i].captured.logits);
      RC_ASSERT(alone[0].captured.decode_logits == together[i].captured.decode_logits);
    }
  });
  EXPECT_TRUE(passed);
}

// The seed of a random draw belongs to the request, not to its neighbours.
TEST_P(BitContract, SampledTokensDoNotDependOnTheBatch) {
  const std::vector<std::string> sampled = {"sampler.chain=repetition_penalty,temperature,top_p",
                                            "sampler.seed=11"};
  const GenerateRequest first{{1, 2, 3}, 20, {}};
  const std::vector<GenerateRequest> both = {first, {{9, 8, 7, 6}, 30, {}}};
  const auto alone = Run(GetParam(), sampled, {first});
  const auto together = Run(GetParam(), sampled, both);
  EXPECT_EQ(alone[0].ids, together[0].ids);
}

TEST_P(BitContract, HoldsWhateverFloatEnvironmentTheCallerHas) {
  const std::vector<GenerateRequest> requests = {{{1, 2, 3, 4, 5}, 6, {}}};
  const auto expected = Run(GetParam(), {}, requests);
  const unsigned own = _mm_getcsr();
  const unsigned toward_zero = own | _MM_ROUND_TOWARD_ZERO | _MM_FLUSH_ZERO_ON;
  _mm_setcsr(toward_zero);
  const auto found = Run(GetParam(), {}, requests);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(own);
  EXPECT_EQ(after & ~_MM_EXCEPT_MASK, toward_zero & ~_MM_EXCEPT_MASK);
  EXPECT_EQ(found[0].captured.logits, expected[0].captured.logits);
  EXPECT_EQ(found[0].captured.decode_logits, expected[0].captured.decode_logits);
}

// A prompt longer than a split of the keys and a short one, run in several ways.
void ExpectOneSetOfBits(
    const std::function<std::vector<Completion>(
        const std::vector<std::string>& ways, const std::vector<GenerateRequest>& requests)>& run) {
  GenerateRequest longer{{}, 5, {}};
  for (int32_t i = 0; i < 270; ++i) longer.prompt_ids.push_back(i * 7 % 61);
  const GenerateRequest shorter{{5, 4, 3, 2, 1, 0, 9}, 6, {}};
  const std::vector<Completion> both =
      run({"run.prefill_chunk=37", "run.threads=3"}, {longer, shorter});
  const std::vector<std::vector<std::string>> ways = {
      {"run.threads=1"}, {"run.threads=2", "run.prefill_chunk=1"}, {"run.use_cache=false"}};
  for (const std::vector<std::string>& way : ways) {
    for (const size_t i : {0, 1}) {
      const std::vector<Completion> alone = run(way, {i == 0 ? longer : shorter});
      EXPECT_EQ(alone[0].ids, both[i].ids);
      EXPECT_EQ(alone[0].captured.logits, both[i].captured.logits) << way[0];
      EXPECT_EQ(alone[0].captured.decode_logits, both[i].captured.decode_logits) << way[0];
    }
  }
}

class BitContractOfLevel : public BitContract {};

TEST_P(BitContractOfLevel, HoldsForEveryIsaLevel) {
  for (const IsaLevel level : SupportedIsaLevels()) {
    SCOPED_TRACE(std::string(IsaName(level)));
    ExpectOneSetOfBits([&](std::vector<std::string> ways, const auto& requests) {
      ways.push_back("run.isa=" + std::string(IsaName(level)));
      return Run(GetParam(), ways, requests);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(EveryCell, BitContractOfLevel,
                         ::testing::Combine(::testing::Values("flash"),
                                            ::testing::Values("f32", "bf16", "f16", "int8", "int4"),
                                            ::testing::Values("f32", "bf16", "f16", "int8",
                                                              "int4")),
                         [](const auto& info) {
                           return std::get<1>(info.param) + "_cache_" + std::get<2>(info.param) +
                                  "_weights";
                         });

INSTANTIATE_TEST_SUITE_P(
    Cells, BitContract,
    ::testing::Values(Cell{"flash", "f32", "f32"}, Cell{"flash", "bf16", "f32"},
                      Cell{"flash", "f16", "bf16"}, Cell{"flash", "f32", "f16"},
                      Cell{"flash", "bf16", "int8"}, Cell{"flash", "f32", "int4"},
                      Cell{"flash", "int8", "f32"}, Cell{"flash", "int4", "bf16"},
                      Cell{"reference", "int4", "f32"}, Cell{"reference", "f32", "f32"},
                      Cell{"reference", "f16", "bf16"}),
    [](const auto& info) {
      return std::get<0>(info.param) + "_" + std::get<1>(info.param) + "_" +
             std::get<2>(info.param);
    });

}  // namespace
}  // namespace ng
