// How long an answer may be where the config leaves it open.
#include "apps/common/answer_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

constexpr int kPrompt = 100;

RunNeeds NeedsOf(std::span<const GenerateRequest> requests) { return Needs(requests); }

class AnswerRoom : public ::testing::Test {
 protected:
  // A model of nearly no weights; a token of it takes layers * 2 * 64 * 256 * 4 bytes of cache.
  void Open(int layers, int context, std::vector<std::string> overrides = {}) {
    EngineOptions options;
    options.random_weights = dir_.Write(
        "config.json",
        absl::StrCat(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 16, )",
                     R"("num_attention_heads": 64, "num_key_value_heads": 64, "head_dim": 256, )",
                     R"("vocab_size": 50, "rms_norm_eps": 1e-5, "num_hidden_layers": )", layers,
                     R"(, "max_position_embeddings": )", context, "}"));
    options.overrides = std::move(overrides);
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Open(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  // The new tokens of so many open answers, by their contexts and then by the memory.
  std::vector<int64_t> Fitted(size_t n_requests) {
    std::vector<GenerateRequest> requests(n_requests);
    std::vector<size_t> open;
    for (GenerateRequest& request : requests) {
      request.prompt_ids.assign(kPrompt, 1);
      EXPECT_TRUE(FitContext(*engine_, kMostAnswerTokens, &request).ok());
      open.push_back(open.size());
    }
    why_ = FitMemory(*engine_, open, NeedsOf, &requests);
    std::vector<int64_t> n_new;
    for (const GenerateRequest& request : requests) n_new.push_back(request.max_new_tokens);
    return n_new;
  }
  RunPlan PlanFor(int64_t n_new) {
    return engine_->Plan({.max_tokens = kPrompt + n_new, .max_prompt = kPrompt}).value();
  }

  test::TempDir dir_;
  std::unique_ptr<Engine> engine_;
  std::string_view why_;
};

TEST_F(AnswerRoom, IsWhatTheContextLeaves) {
  Open(1, 300);
  EXPECT_THAT(Fitted(1), ::testing::ElementsAre(200));
  EXPECT_EQ(why_, "what the context leaves");
  Open(1, 300, {"cache.max_tokens=150"});
  EXPECT_THAT(Fitted(1), ::testing::ElementsAre(50));  // with 64 it would have been refused
  Open(1, 300, {"run.on_full=recompute"});
  EXPECT_THAT(Fitted(1), ::testing::ElementsAre(kMostAnswerTokens));
}

TEST_F(AnswerRoom, HasAMost) {
  Open(1, 100000, {"cache.codec=int4"});
  EXPECT_THAT(Fitted(1), ::testing::ElementsAre(kMostAnswerTokens));
  EXPECT_EQ(why_, "the most of an answer");
}

TEST_F(AnswerRoom, LeavesHalfOfTheMemory) {
  // As many layers as take three times the memory that is there.
  const int64_t token_bytes = 2 * 64 * 256 * 4;
  Open(1, 100000);
  const int64_t available = PlanFor(1).available_bytes;
  const auto layers = static_cast<int>(available * 3 / (token_bytes * kMostAnswerTokens));
  Open(layers, 100000);
  const int64_t n_new = Fitted(1).front();
  EXPECT_EQ(why_, "half of the memory that is left");
  EXPECT_GT(n_new, 64);
  EXPECT_LT(n_new, kMostAnswerTokens);
  // Other programs take and give memory meanwhile.
  const RunPlan plan = PlanFor(n_new);
  const RunPlan least = PlanFor(64);
  const int64_t left = least.available_bytes - least.needed_bytes();
  EXPECT_LT(plan.needed_bytes() - least.needed_bytes(), left / 2 + available / 10);
  EXPECT_GT(plan.needed_bytes() - least.needed_bytes(), left / 2 - available / 10);
  // Several answers share it.
  EXPECT_LT(Fitted(4).front(), n_new / 3);
}

TEST_F(AnswerRoom, IsSixtyFourWhereEvenThatDoesNotFit) {
  const int64_t token_bytes = 2 * 64 * 256 * 4;
  Open(1, 100000);
  const auto layers = static_cast<int>(PlanFor(1).available_bytes * 2 / (token_bytes * 164));
  Open(std::min(layers, 60000), 100000);
  EXPECT_THAT(Fitted(1), ::testing::ElementsAre(64));
}

TEST_F(AnswerRoom, IsTheShareOfAPoolWhereSeveralAnswerSideBySide) {
  Open(1, 100000, {"cache.name=paged", "cache.paged.pool_tokens=3200"});
  for (const int64_t n_new : Fitted(4)) EXPECT_EQ(kPrompt + n_new, 800);
  EXPECT_EQ(kPrompt + Fitted(1).front(), 3200);
  for (const int64_t n_new : Fitted(100)) EXPECT_EQ(n_new, 64);
}

TEST_F(AnswerRoom, RefusesAPromptThatLeavesNothing) {
  Open(1, kPrompt);
  GenerateRequest request;
  request.prompt_ids.assign(kPrompt, 1);
  const absl::Status status = FitContext(*engine_, kMostAnswerTokens, &request);
  EXPECT_EQ(ExitCode(status), 5);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("= 101 > 100 T_max"));
}

}  // namespace
}  // namespace ng
