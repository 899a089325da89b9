// Weights that the first step reads (model.load) are the same weights: bits, errors, times, memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ng/engine.h"
#include "tests/integration/engine/captured_run.h"
#include "tests/integration/engine/goldens.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

class ReadInStep : public ::testing::Test {
 protected:
  // Opens and loads; two requests of 5 and 3 ids.
  absl::Status Open(const std::string& path, const std::string& load = "with_prompt",
                    const std::string& chunk = "2") {
    EngineOptions options;
    options.overrides = {"model.path=" + path, "model.load=" + load, "sampler.chain=greedy",
                         "run.stop_ids=",      "run.threads=2",      "run.prefill_chunk=" + chunk};
    options.stop = &stop_;
    NG_ASSIGN_OR_RETURN(engine_, Engine::Open(options));
    RunNeeds needs = Needs(requests_);
    needs.prompt_logits = true;
    needs.read_in_step = true;
    return engine_->Load(needs);
  }
  absl::StatusOr<std::vector<Completion>> Generate() {
    GenerateOptions keep;
    keep.capture_logits = true;
    return engine_->Generate(requests_, keep);
  }

  std::atomic<bool> stop_ = false;
  std::vector<GenerateRequest> requests_ = {{{11, 2, 7, 5, 3}, 3, {}}, {{4, 9, 1}, 3, {}}};
  std::unique_ptr<Engine> engine_;
};

TEST_F(ReadInStep, GivesTheBitsOfTheModelForEveryGolden) {
  int n_models = 0;
  for (const std::string& path : test::Goldens()) {
    SCOPED_TRACE(path);
    ++n_models;
    std::vector<std::vector<Completion>> both;
    for (const char* load : {"with_prompt", "before_prompt"}) {
      const absl::Status loaded = Open(path, load);
      ASSERT_TRUE(loaded.ok()) << loaded;
      auto done = Generate();
      ASSERT_TRUE(done.ok()) << done.status();
      both.push_back(*std::move(done));
    }
    for (size_t i = 0; i < requests_.size(); ++i) test::ExpectSameBits(both[0][i], both[1][i]);
  }
  EXPECT_GT(n_models, 60);
}

// Both kinds of loading refuse the same, one of them in the step.
TEST_F(ReadInStep, SaysInTheStepWhatIsWrongWithALayer) {
  const test::TempDir dir;
  test::TinyNiels().WriteTo(dir.path(), test::Filling("blocks.1.mlp.fc_out.weight", NAN));
  const absl::Status before = Open(dir.path(), "before_prompt");
  EXPECT_EQ(ExitCode(before), 3);
  ASSERT_TRUE(Open(dir.path()).ok());
  for (int again = 0; again < 2; ++again) EXPECT_EQ(Generate().status(), before);
}

TEST_F(ReadInStep, ARunThatIsStoppedWhileItReadsCanBeginAgain) {
  const test::TempDir dir;
  test::TinyNiels().WriteTo(dir.path());
  ASSERT_TRUE(Open(dir.path(), "before_prompt").ok());
  const auto expected = Generate();
  ASSERT_TRUE(expected.ok());
  ASSERT_TRUE(Open(dir.path()).ok());
  stop_ = true;
  const auto stopped = Generate();
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ((*stopped)[0].stop_reason, StopReason::kInterrupted);
  stop_ = false;
  const auto found = Generate();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)[0].ids, (*expected)[0].ids);
  // Reading in a step counts as loading, of all requests and of those that come later.
  const double load_s = (*found)[0].timings.load_s;
  EXPECT_GT(load_s, (*stopped)[0].timings.load_s);
  EXPECT_EQ((*found)[1].timings.load_s, load_s);
  const auto later = Generate();
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ((*later)[0].timings.load_s, load_s);
}

TEST_F(ReadInStep, IsNotForThoseWhoWantAllWeightsBeforeAStep) {
  const test::TempDir dir;
  test::TinyNiels().WriteTo(dir.path(), test::Filling("blocks.1.mlp.fc_out.weight", NAN));
  for (bool RunNeeds::*wants : {&RunNeeds::identity, &RunNeeds::snapshots}) {
    ASSERT_TRUE(Open(dir.path()).ok());
    RunNeeds needs = Needs(requests_);
    needs.read_in_step = true;
    needs.*wants = true;
    EXPECT_EQ(ExitCode(engine_->Load(needs)), 3);
    needs = Needs(requests_);
    EXPECT_EQ(ExitCode(engine_->Load(needs)), 3);
  }
}

TEST_F(ReadInStep, PlansForBothAtOnce) {
  const test::TempDir dir;
  test::TinyNiels().WriteTo(dir.path());
  ASSERT_TRUE(Open(dir.path()).ok());
  RunNeeds needs = Needs(requests_);
  const auto before = engine_->Plan(needs);
  needs.read_in_step = true;
  const auto in_step = engine_->Plan(needs);
  ASSERT_TRUE(before.ok() && in_step.ok());
  EXPECT_FALSE(before->read_in_step);
  EXPECT_TRUE(in_step->read_in_step);
  const int64_t of_steps = in_step->cache.bytes + in_step->activation_bytes;
  EXPECT_EQ(in_step->needed_bytes(),
            in_step->weights.bytes() + in_step->load_scratch_bytes + of_steps);
  EXPECT_EQ(before->needed_bytes(),
            before->weights.bytes() + std::max(before->load_scratch_bytes, of_steps));
}

}  // namespace
}  // namespace ng
