// Models that keep a state in some layers: what a sequence can and cannot do with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "ng/engine.h"
#include "tests/integration/engine/last_logits.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::HasSubstr;

// The model, and the cache store.
using Case = std::tuple<std::string, std::string>;

class States : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Engine> Open() {
    const auto& [model, cache] = GetParam();
    EngineOptions options;
    options.overrides = {"model.path=" NG_TEST_DATA "/golden/" + model + "/tiny",
                         "cache.name=" + cache, "run.stop_ids=", "sampler.chain=greedy"};
    options.stop = &stop_;
    auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    RunNeeds needs = {.max_tokens = 48, .max_sequences = 3};
    needs.snapshots = true;
    const absl::Status loaded = (*engine)->Load(needs);
    EXPECT_TRUE(loaded.ok()) << loaded;
    return *std::move(engine);
  }

  std::vector<float> Extend(SequenceId sequence, const std::vector<int32_t>& tokens) {
    return test::LastLogits(*engine_, sequence, tokens);
  }

  std::atomic<bool> stop_ = false;
  const test::TempDir dir_;
  const std::unique_ptr<Engine> engine_ = Open();
};

TEST_P(States, AreCopiedToAFork) {
  const SequenceId a = engine_->OpenSequence(48).value();
  const SequenceId b = engine_->OpenSequence(48).value();
  Extend(a, {1, 2, 3});
  const SequenceId fork = engine_->ForkSequence(a, 48).value();
  Extend(a, {9});
  EXPECT_EQ(Extend(fork, {4}), Extend(b, {1, 2, 3, 4}));
}

TEST_P(States, GoBackToTheBeginningOnly) {
  const SequenceId a = engine_->OpenSequence(48).value();
  const SequenceId b = engine_->OpenSequence(48).value();
  const std::vector<float> first = Extend(a, {1, 2, 3});
  Extend(b, {1, 2, 3});
  const absl::Status refused = engine_->TruncateSequence(a, 2);
  EXPECT_TRUE(IsUnsupported(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("from 3 tokens to 2"));
  EXPECT_TRUE(engine_->TruncateSequence(a, 3).ok());
  EXPECT_EQ(Extend(a, {4}), Extend(b, {4}));
  ASSERT_TRUE(engine_->TruncateSequence(a, 0).ok());
  EXPECT_EQ(Extend(a, {1, 2, 3}), first);
}

TEST_P(States, OfAClosedSequenceAreNotThoseOfTheNext) {
  const SequenceId a = engine_->OpenSequence(48).value();
  const std::vector<float> first = Extend(a, {1, 2, 3});
  engine_->CloseSequence(a);
  EXPECT_EQ(Extend(engine_->OpenSequence(48).value(), {1, 2, 3}), first);
}

TEST_P(States, AreAsTheyWereBeforeAStepThatIsAbandoned) {
  const SequenceId a = engine_->OpenSequence(48).value();
  const SequenceId b = engine_->OpenSequence(48).value();
  Extend(a, {1, 2, 3});
  Extend(b, {1, 2, 3});
  stop_ = true;
  const std::vector<std::vector<int32_t>> more = {{9, 9, 9, 9}};
  EXPECT_FALSE(engine_->Extend({&a, 1}, more).ok());
  stop_ = false;
  EXPECT_EQ(engine_->SequenceLength(a), 3);
  EXPECT_EQ(Extend(a, {4, 5}), Extend(b, {4, 5}));
}

TEST_P(States, GoIntoASnapshotAndBack) {
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  const std::string path = dir_.path() + "/saved.cache";
  const SequenceId a = engine_->OpenSequence(48).value();
  Extend(a, ids);
  ASSERT_TRUE(engine_->SaveSequence(a, ids, path).ok());
  const auto loaded = engine_->LoadSequence(path, 48);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(Extend(loaded->sequence, {5, 6}), Extend(a, {5, 6}));
  engine_->CloseSequence(loaded->sequence);

  // A longer prompt goes on from it, and the same one is computed anew.
  for (const bool longer : {true, false}) {
    GenerateRequest request = {ids, 6, {}};
    if (longer) request.prompt_ids.push_back(18);
    std::vector<GenerateRequest> both = {request, request};
    both[1].load_cache = path;
    const auto done = engine_->Generate(both, {});
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_EQ((*done)[0].ids, (*done)[1].ids);
    EXPECT_EQ((*done)[1].timings.loaded_tokens, longer ? 17 : 0);
  }

  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-9, std::ios::end);
  file.put('x');
  file.close();
  const auto damaged = engine_->LoadSequence(path, 48);
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(ExitCode(damaged.status()), 3);
  EXPECT_THAT(std::string(damaged.status().message()), HasSubstr("the state's checksum"));
}

TEST_P(States, AreNotSharedByPromptsThatBeginAlike) {
  const GenerateRequest request = {
      {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, 6, {}};
  const auto alone = engine_->Generate({&request, 1}, {});
  ASSERT_TRUE(alone.ok()) << alone.status();
  const auto done = engine_->Generate(std::vector(3, request), {});
  ASSERT_TRUE(done.ok()) << done.status();
  for (const Completion& completion : *done) {
    EXPECT_EQ(completion.ids, alone->front().ids);
    EXPECT_EQ(completion.timings.shared_tokens, 0);
  }
}

TEST_P(States, AreInThePlan) {
  RunNeeds needs = {.max_tokens = 48, .max_sequences = 1};
  const RunPlan one = engine_->Plan(needs).value();
  needs.max_sequences = 3;
  const RunPlan three = engine_->Plan(needs).value();
  EXPECT_GT(one.state_bytes, 0);
  EXPECT_EQ(three.state_bytes, 3 * one.state_bytes);
  EXPECT_EQ(one.state_bytes, 2 * one.step.state_bytes);
  EXPECT_GT(three.needed_bytes(), three.weights.bytes() + three.cache.bytes + three.state_bytes);
}

TEST_P(States, AreInLayersThatHaveNoAttentionToTrace) {
  GenerateOptions options;
  options.capture_attn_full = true;
  options.trace_layers = {0};
  const GenerateRequest request = {{1, 2, 3}, 2, {}};
  const auto refused = engine_->Generate({&request, 1}, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(ExitCode(refused.status()), 2);
  const std::span<const int> attend = engine_->attention_layers();
  ASSERT_FALSE(attend.empty());
  EXPECT_LT(attend.size(), static_cast<size_t>(engine_->model_shape().n_layers));
  options.trace_layers.assign(attend.begin(), attend.end());
  EXPECT_TRUE(engine_->Generate({&request, 1}, options).ok());
}

INSTANTIATE_TEST_SUITE_P(Hybrids, States,
                         ::testing::Combine(::testing::Values("lfm2", "qwen3_5", "nemotron_h"),
                                            ::testing::Values("contiguous", "paged")),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace ng
