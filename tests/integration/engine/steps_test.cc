// The engine driven step by step: extending, cutting back, and what a step costs.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ng/engine.h"
#include "tests/integration/engine/last_logits.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng {
namespace {

class EngineSteps : public ::testing::Test {
 protected:
  EngineSteps() {
    model_.WriteTo(dir_.path());
    EngineOptions options;
    options.overrides = {"model.path=" + dir_.path(), "model.weights=bf16", "cache.codec=f16"};
    auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  // The logits after `tokens`, appended to the sequence.
  std::vector<float> Extend(SequenceId sequence, const std::vector<int32_t>& tokens) {
    return test::LastLogits(*engine_, sequence, tokens);
  }

  test::TinyNiels model_;
  test::TempDir dir_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineSteps, ExtendInChunksGivesTheBitsOfOnePrefill) {
  ASSERT_TRUE(engine_->Load({32, 2}).ok());
  const SequenceId whole = engine_->OpenSequence(32).value();
  const SequenceId parts = engine_->OpenSequence(32).value();
  Extend(parts, {1, 2, 3});
  const std::vector<float> last = Extend(parts, {4, 5});
  EXPECT_EQ(Extend(whole, {1, 2, 3, 4, 5}), last);
  EXPECT_EQ(engine_->SequenceLength(parts), 5);
}

// The rows of two sequences side by side, against one token at a time.
TEST_F(EngineSteps, ExtendGivesEveryRowOnRequestAndTheBitsOfSingleSteps) {
  ASSERT_TRUE(engine_->Load({.max_tokens = 32, .max_sequences = 3, .prompt_logits = true}).ok());
  const std::vector<std::vector<int32_t>> tokens = {{1, 2, 3, 4, 5}, {6, 7, 8}};
  std::vector<float> single;  // [8, vocab_size]
  for (const std::vector<int32_t>& text : tokens) {
    const SequenceId sequence = engine_->OpenSequence(32).value();
    for (const int32_t token : text) {
      const std::vector<float> row = Extend(sequence, {token});
      single.insert(single.end(), row.begin(), row.end());
    }
    engine_->CloseSequence(sequence);
  }
  const std::vector<SequenceId> both = {engine_->OpenSequence(32).value(),
                                        engine_->OpenSequence(32).value()};
  const auto step = engine_->Extend(both, tokens, LogitRows::kAll);
  ASSERT_TRUE(step.ok()) << step.status();
  ASSERT_EQ(step->logits.extent[0], 8);
  const float* const rows = step->logits.data;
  EXPECT_EQ(std::vector<float>(rows, rows + 8 * model_.vocab_size), single);
  const auto last = engine_->Extend(both, tokens);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->logits.extent[0], 2);
}

TEST_F(EngineSteps, AForkGoesOnByItselfWithTheSameBits) {
  ASSERT_TRUE(engine_->Load({32, 3}).ok());
  const SequenceId a = engine_->OpenSequence(32).value();
  const SequenceId b = engine_->OpenSequence(32).value();
  Extend(a, {1, 2, 3});
  const SequenceId fork = engine_->ForkSequence(a, 32).value();
  EXPECT_EQ(engine_->SequenceLength(fork), 3);
  Extend(a, {9, 9});
  EXPECT_EQ(Extend(fork, {4, 5}), Extend(b, {1, 2, 3, 4, 5}));
  EXPECT_EQ(engine_->SequenceLength(a), 5);
}

TEST_F(EngineSteps, AForkIsRefusedWithoutRoomOrWithoutASequence) {
  EXPECT_EQ(ExitCode(engine_->ForkSequence(0, 32).status()), 1);  // nothing is loaded
  ASSERT_TRUE(engine_->Load({32, 2}).ok());
  EXPECT_EQ(ExitCode(engine_->ForkSequence(0, 32).status()), 2);
  const SequenceId a = engine_->OpenSequence(32).value();
  Extend(a, {1, 2, 3});
  EXPECT_EQ(ExitCode(engine_->ForkSequence(a, 2).status()), 5);
  ASSERT_TRUE(engine_->ForkSequence(a, 32).ok());
  EXPECT_EQ(ExitCode(engine_->ForkSequence(a, 32).status()), 5);  // no third sequence
}

TEST_F(EngineSteps, ATruncatedSequenceGoesOnAsIfTheRestHadNeverBeen) {
  ASSERT_TRUE(engine_->Load({32, 2}).ok());
  const SequenceId a = engine_->OpenSequence(32).value();
  const SequenceId b = engine_->OpenSequence(32).value();
  Extend(a, {1, 2, 3, 9, 9, 9});
  ASSERT_TRUE(engine_->TruncateSequence(a, 3).ok());
  EXPECT_EQ(engine_->SequenceLength(a), 3);
  EXPECT_EQ(Extend(a, {4, 5}), Extend(b, {1, 2, 3, 4, 5}));
  EXPECT_EQ(ExitCode(engine_->TruncateSequence(a, 6)), 2);
  EXPECT_EQ(ExitCode(engine_->TruncateSequence(a, -1)), 2);
}

TEST_F(EngineSteps, ExtendRefusesWhatDoesNotFit) {
  const std::vector<std::vector<int32_t>> tokens = {std::vector<int32_t>(60, 1)};
  const std::vector<SequenceId> none = {0};
  EXPECT_EQ(ExitCode(engine_->Extend(none, tokens).status()), 1);  // nothing is loaded yet
  ASSERT_TRUE(engine_->Load({64, 1}).ok());
  const std::vector<SequenceId> sequence = {engine_->OpenSequence(64).value()};
  ASSERT_TRUE(engine_->Extend(sequence, tokens).ok());
  EXPECT_EQ(ExitCode(engine_->Extend(sequence, tokens).status()), 5);
  EXPECT_EQ(ExitCode(engine_->Extend(sequence, std::vector<std::vector<int32_t>>{{}}).status()), 2);
  EXPECT_EQ(ExitCode(engine_->Extend(sequence, {}).status()), 2);
  EXPECT_EQ(engine_->SequenceLength(sequence[0]), 60);
}

TEST_F(EngineSteps, CostOfStepCountsMatricesAndCache) {
  EXPECT_EQ(ExitCode(engine_->CostOfStep().status()), 1);  // nothing is loaded yet
  ASSERT_TRUE(engine_->Load({32, 1}).ok());
  const StepCost cost = engine_->CostOfStep().value();
  // Gate and up lie side by side in 48 columns each, 40 of them used.
  const int64_t layer =
      4 * model_.width * model_.width + 96 * model_.width + model_.width * model_.ffn_width;
  EXPECT_EQ(cost.weights, "bf16");
  EXPECT_EQ(cost.row_multiply_adds, model_.n_layers * layer);
  EXPECT_EQ(cost.logit_multiply_adds, model_.vocab_size * model_.width);
  EXPECT_EQ(cost.cache_bytes_per_token, model_.n_layers * 2 * model_.width * 2);
  // Columns are packed by 16: 72, 24 and 61 become 80, 32 and 64.
  const int64_t packed_layer = (80 + 32 + 96) * model_.width + 32 * model_.ffn_width;
  EXPECT_EQ(cost.weight_bytes, 2 * (model_.n_layers * packed_layer + 64 * model_.width));
}

TEST_F(EngineSteps, PlanSaysBeforeLoadWhatIsThenTrue) {
  RunNeeds needs{32, 2};
  const RunPlan plan = engine_->Plan(needs).value();
  EXPECT_TRUE(CheckMemory(plan).ok());
  EXPECT_EQ(plan.max_tokens, 32);
  EXPECT_EQ(plan.max_sequences, 2);
  EXPECT_EQ(plan.codec_k, Codec::kF16);
  EXPECT_EQ(plan.cache.bytes, 64 * plan.cache.bytes_per_token);
  EXPECT_EQ(plan.weights.head_bytes, 0);
  ASSERT_TRUE(engine_->Load(needs).ok());
  const StepCost cost = engine_->CostOfStep().value();
  EXPECT_EQ(cost.weights, plan.step.weights);
  EXPECT_EQ(cost.weight_bytes, plan.step.weight_bytes);
  EXPECT_EQ(cost.weight_bytes, plan.weights.matrix_bytes());
  EXPECT_EQ(cost.cache_bytes_per_token, plan.cache.bytes_per_token);
  // A prompt that is known to be short needs fewer rows.
  needs.max_prompt = 4;
  EXPECT_LT(engine_->Plan(needs)->activation_bytes, plan.activation_bytes);
  EXPECT_EQ(ExitCode(engine_->Plan({65, 1}).status()), 5);
}

TEST_F(EngineSteps, CheckMemoryNamesEveryPart) {
  RunPlan plan = engine_->Plan({32, 2}).value();
  plan.available_bytes = plan.needed_bytes();
  EXPECT_TRUE(CheckMemory(plan).ok());
  plan.available_bytes -= 1;
  const absl::Status refused = CheckMemory(plan);
  EXPECT_EQ(ExitCode(refused), 5);
  for (const int64_t bytes : {plan.needed_bytes(), plan.weights.bytes(), plan.cache.bytes,
                              plan.activation_bytes, plan.available_bytes}) {
    EXPECT_NE(refused.message().find(std::to_string(bytes)), absl::string_view::npos) << bytes;
  }
}

}  // namespace
}  // namespace ng
