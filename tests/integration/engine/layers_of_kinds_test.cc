// Models whose layers hold keys and values of several widths, or read those of another layer: what
// the cache holds of them, and that sequences are forked, cut, shared and saved as in any model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "ng/engine.h"
#include "tests/integration/engine/last_logits.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

constexpr int64_t kCapacity = 60;

// The model, the bytes of one token's keys and values in f32, and the cache store.
struct KindsModel {
  const char* name;
  int64_t bytes_per_token;
};
using KindsCase = std::tuple<KindsModel, std::string>;

class LayersOfKinds : public ::testing::TestWithParam<KindsCase> {
 protected:
  std::unique_ptr<Engine> Open(bool snapshots) const {
    const auto& [model, cache] = GetParam();
    EngineOptions options;
    options.overrides = {std::string("model.path=" NG_TEST_DATA "/golden/") + model.name,
                         "cache.name=" + cache,
                         "run.stop_ids=",
                         "sampler.chain=greedy",
                         "cache.codec=f32",
                         "cache.paged.page_tokens=16",
                         "run.check_plugins=true"};
    auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    const RunNeeds needs = {.max_tokens = kCapacity, .max_sequences = 4, .snapshots = snapshots};
    const absl::Status loaded = (*engine)->Load(needs);
    EXPECT_TRUE(loaded.ok()) << loaded;
    return *std::move(engine);
  }

  std::vector<float> Extend(SequenceId sequence, const std::vector<int32_t>& tokens) {
    return test::LastLogits(*engine_, sequence, tokens);
  }

  const std::vector<int32_t> ids_ = {1,  2,  3,  4,  5,  6,  7,  8,  9, 10,
                                     11, 12, 13, 14, 15, 16, 17, 18, 19};
  const test::TempDir dir_;
  const std::unique_ptr<Engine> engine_ = Open(true);
};

TEST_P(LayersOfKinds, AreHeldOnceAndAsWideAsTheyAre) {
  const RunPlan plan = engine_->Plan({.max_tokens = kCapacity, .max_sequences = 1}).value();
  EXPECT_EQ(plan.step.cache_bytes_per_token, std::get<0>(GetParam()).bytes_per_token);
  int64_t reads = 0;
  for (const CacheReads& of_window : plan.step.cache_reads) reads += of_window.bytes_per_token;
  EXPECT_GE(reads, plan.step.cache_bytes_per_token);  // a layer that is shared is read twice
}

TEST_P(LayersOfKinds, GoIntoASnapshotAndBack) {
  const std::string path = dir_.path() + "/saved.cache";
  const SequenceId a = engine_->OpenSequence(kCapacity).value();
  Extend(a, ids_);
  ASSERT_TRUE(engine_->SaveSequence(a, ids_, path).ok());
  const auto loaded = engine_->LoadSequence(path, kCapacity);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(Extend(loaded->sequence, {5, 6}), Extend(a, {5, 6}));

  GenerateRequest request = {ids_, 6, {}};  // a longer prompt goes on from it
  request.prompt_ids.push_back(20);
  std::vector<GenerateRequest> both = {request, request};
  both[1].load_cache = path;
  const auto done = engine_->Generate(both, {});
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ((*done)[0].ids, (*done)[1].ids);
  const Timings& timings = (*done)[1].timings;
  EXPECT_GT(timings.loaded_tokens, 0);
  EXPECT_EQ(timings.loaded_tokens + timings.shared_tokens, 19);
}

TEST_P(LayersOfKinds, AreCutOffAndFedAgain) {
  const SequenceId a = engine_->OpenSequence(kCapacity).value();
  const SequenceId b = engine_->OpenSequence(kCapacity).value();
  const std::vector<float> whole = Extend(a, ids_);
  Extend(b, ids_);
  ASSERT_TRUE(engine_->TruncateSequence(b, 7).ok());
  EXPECT_EQ(Extend(b, {ids_.begin() + 7, ids_.end()}), whole);
  EXPECT_EQ(Extend(b, {3}), Extend(a, {3}));
}

TEST_P(LayersOfKinds, AreSharedByPromptsThatBeginAlike) {
  const GenerateRequest request = {ids_, 6, {}};
  const auto alone = engine_->Generate({&request, 1}, {});
  ASSERT_TRUE(alone.ok()) << alone.status();
  const auto done = engine_->Generate(std::vector(3, request), {});
  ASSERT_TRUE(done.ok()) << done.status();
  const bool shares = std::get<1>(GetParam()) == "paged";
  for (const Completion& completion : *done) EXPECT_EQ(completion.ids, alone->front().ids);
  EXPECT_EQ(done->back().timings.shared_tokens, shares ? 16 : 0);
}

INSTANTIATE_TEST_SUITE_P(
    Models, LayersOfKinds,
    ::testing::Combine(
        // The heads of each layer that holds keys and values.
        ::testing::Values(KindsModel{"gemma4/inputs", 4 * 2 * (8 + 12 + 8)},
                          KindsModel{"gemma4/experts", 4 * 2 * (8 + 24 + 8 + 24 + 24)},
                          KindsModel{"deepseek_v3/tiny", 4 * 3 * (12 + 4)}),
        ::testing::Values("contiguous", "paged")),
    [](const auto& test) {
      std::string name = std::string(std::get<0>(test.param).name) + "_" + std::get<1>(test.param);
      std::ranges::replace(name, '/', '_');
      return name;
    });

}  // namespace
}  // namespace ng
