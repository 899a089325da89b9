// Runs by layers over several ranks: the bits of one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/engine.h"
#include "ng/fingerprint.h"
#include "tests/plugins/fabric/rank_runs.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;

// Of a run by layers: whether it can be cut so. `looks`: with attention rows and points.
bool ExpectLayersAgree(Case one, int size, bool looks = false) {
  const auto alone = TryRun(one, false, looks);
  EXPECT_TRUE(alone.ok()) << one.model << ": " << alone.status();
  one.overrides.emplace_back("fabric.split=layers");
  SCOPED_TRACE(absl::StrCat(one.model, " by layers on ", size, " ranks"));
  std::vector<absl::StatusOr<std::vector<Completion>>> seen(static_cast<size_t>(size));
  OnRanks(size, [&](int rank) { seen[static_cast<size_t>(rank)] = TryRun(one, true, looks); });
  if (ExitCode(seen[0].status()) == 4) {
    EXPECT_THAT(std::string(seen[0].status().message()), HasSubstr("fabric.split = layers: "));
    return false;
  }
  for (const auto& of_rank : seen) {
    EXPECT_TRUE(of_rank.ok()) << of_rank.status();
    if (of_rank.ok() && alone.ok()) ExpectSame(*of_rank, *alone);
  }
  return true;
}

TEST(RankLayers, HaveTheBitsOfOneProcessInEveryFamily) {
  int n_cut = 0;
  for (const std::string& model : Models()) {
    for (const int size : {2, 3}) n_cut += ExpectLayersAgree({model}, size, size == 2) ? 1 : 0;
  }
  EXPECT_GT(n_cut, 60);
}

TEST(RankLayers, HaveTheBitsOfOneProcessInPiecesWithEveryWeightTypeCacheAndWindow) {
  const std::string llama = absl::StrCat(kGolden, "llama/tied_gqa");
  const std::string window = absl::StrCat(kGolden, "mistral/window");
  // More rows than a piece has.
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 50; ++i) prompt.push_back(i * 7 % 41);
  for (const char* weights : {"f32", "bf16", "f16", "int8", "int4"}) {
    EXPECT_TRUE(ExpectLayersAgree({llama, {absl::StrCat("model.weights=", weights)}}, 2));
  }
  for (const char* codec : {"bf16", "int8", "int4"}) {
    EXPECT_TRUE(ExpectLayersAgree(
        {llama, {absl::StrCat("cache.codec=", codec), "cache.name=paged"}, prompt}, 2));
  }
  EXPECT_TRUE(ExpectLayersAgree({window, {}, prompt}, 2));
  EXPECT_TRUE(ExpectLayersAgree({llama, {"run.prefill_chunk=37"}, prompt}, 2));
  EXPECT_TRUE(ExpectLayersAgree({llama, {"run.use_cache=false"}}, 2));
  EXPECT_TRUE(ExpectLayersAgree({llama, {"drafter.name=ngram", "drafter.ngram.min=1"}}, 2));
}

// Several prompts and pieces, of which each process shows the rows of its layers to all.
TEST(RankLayers, ShowAttentionRowsAndPointsOfAllLayersInPieces) {
  const std::string llama = absl::StrCat(kGolden, "llama/tied_gqa");
  Case one = {llama, {}, {}, 5};
  for (int32_t i = 0; i < 30; ++i) one.prompt.push_back((3 + i * 7) % 40);
  EXPECT_TRUE(ExpectLayersAgree(one, 2, true));
  one.overrides = {"run.prefill_chunk=17", "cache.name=paged", "cache.codec=int8"};
  EXPECT_TRUE(ExpectLayersAgree(one, 2, true));
  one.model = absl::StrCat(kGolden, "qwen3_moe/tiny");
  EXPECT_TRUE(ExpectLayersAgree(one, 2, true));
}

// What a run is identified by, though no rank reads all weights.
TEST(RankLayers, AreIdentifiedAsOneProcessIs) {
  const auto identity_of = [](const std::string& model, bool ranks) {
    EngineOptions options = GreedyRank("");
    options.overrides[0] = "model.path=" + model;
    options.overrides.emplace_back(ranks ? "fabric.split=layers" : "fabric.name=local");
    std::string text;
    const auto engine = Engine::Open(options);
    if (!engine.ok()) return ExitCode(engine.status()) == 4 ? text : engine.status().ToString();
    RunNeeds needs;
    needs.max_tokens = 8;
    needs.identity = true;
    const absl::Status loaded = (*engine)->Load(needs);
    if (!loaded.ok()) return loaded.ToString();
    const auto identity = (*engine)->Identity();
    const auto print = (*engine)->Fingerprint();
    if (!identity.ok() || !print.ok()) return identity.status().ToString();
    for (const auto& [name, value] : *identity) absl::StrAppend(&text, name, " ", value, "\n");
    return absl::StrCat(text, print->model);
  };
  int n_cut = 0;
  for (const std::string& model : Models()) {
    SCOPED_TRACE(model);
    const std::string alone = identity_of(model, false);
    std::vector<std::string> seen(2);
    OnRanks(2, [&](int rank) { seen[static_cast<size_t>(rank)] = identity_of(model, true); });
    EXPECT_EQ(seen[0], seen[1]);
    if (seen[0].empty()) continue;  // it cannot be cut
    EXPECT_EQ(seen[0], alone);
    ++n_cut;
  }
  EXPECT_GT(n_cut, 30);
}

TEST(RankLayers, HoldTheirOwnLayersAlone) {
  std::vector<RunPlan> plans(3);
  for (const int size : {1, 2}) {
    OnRanks(size, [&](int rank) {
      EngineOptions options;
      options.overrides = {absl::StrCat("model.path=", kGolden, "llama/untied"), "run.threads=1",
                           "fabric.name=threads", "fabric.split=layers"};
      options.plugins = {{&kThreadRanks, "the test"}};
      options.ranks = true;
      const auto engine = Engine::Open(options);
      ASSERT_TRUE(engine.ok()) << engine.status();
      const auto plan = (*engine)->Plan({.max_tokens = 50});
      ASSERT_TRUE(plan.ok()) << plan.status();
      plans[static_cast<size_t>(size) - 1 + static_cast<size_t>(rank)] = *plan;
    });
  }
  const auto& [whole, first, last] = std::tie(plans[0], plans[1], plans[2]);
  EXPECT_EQ(first.cache.bytes + last.cache.bytes, whole.cache.bytes);
  EXPECT_EQ(first.weights.bytes() + last.weights.bytes(), whole.weights.bytes());
  EXPECT_EQ(first.weights.head_bytes, 0);
  EXPECT_EQ(last.weights.embedding_bytes, 0);
}

// A rank in the middle has neither embedding nor head, so more layers, and of a long text more
// cache than the others have weights. Steps are computed piece by piece.
TEST(RankLayers, ArePlannedAsTheOneThatTakesMostDoes) {
  const TempDir temp;
  const std::string shape = temp.Write("shape.json", R"({"model_type": "llama",
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 8,
        "num_attention_heads": 4, "vocab_size": 1400, "max_position_embeddings": 4000,
        "rms_norm_eps": 1e-5})");
  const auto plan_of = [&](int plan_ranks, int64_t max_tokens) {
    EngineOptions options = GreedyRank("llama/tied_gqa");
    options.overrides[0] = "fabric.split=layers";
    if (plan_ranks > 0) options.overrides.emplace_back("fabric.name=local");
    options.random_weights = shape;
    options.plan_ranks = plan_ranks;
    const auto engine = Engine::Open(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *(*engine)->Plan({.max_tokens = max_tokens, .max_prompt = max_tokens});
  };
  for (const int64_t max_tokens : {10, 4000}) {
    std::vector<RunPlan> plans(3);
    OnRanks(3, [&](int rank) { plans[static_cast<size_t>(rank)] = plan_of(0, max_tokens); });
    const RunPlan& most = *std::ranges::max_element(plans, {}, &RunPlan::needed_bytes);
    EXPECT_EQ(most.rank == 1, max_tokens == 4000);
    const RunPlan planned = plan_of(3, max_tokens);
    EXPECT_EQ(planned.rank, most.rank);
    EXPECT_EQ(planned.needed_bytes(), most.needed_bytes());
    if (max_tokens == 4000) {
      EXPECT_LT(3 * planned.activation_bytes, plan_of(1, 4000).activation_bytes);
    }
  }
}

TEST(RankLayers, SendTheBytesThatThePlanSays) {
  std::atomic<int64_t> sent = 0;
  int64_t expected = 0;
  OnRanks(2, [&](int rank) {
    EngineOptions options = GreedyRank("llama/tied_gqa");
    options.overrides.emplace_back("fabric.split=layers");
    const auto engine = Engine::Open(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    const std::vector<GenerateRequest> requests = {
        {.prompt_ids = std::vector<int32_t>(55, 5), .max_new_tokens = 5}};
    const auto plan = (*engine)->Plan(Needs(requests));
    ASSERT_TRUE(plan.ok() && (*engine)->Load(Needs(requests)).ok());
    const int64_t before = t_gathered;
    ASSERT_TRUE((*engine)->Generate(requests, {}).ok());
    sent += t_sent;
    constexpr int64_t kSteps = 5;
    constexpr int64_t kPieces = 3 + 4;  // of 19, 19 and 17 rows, then of one
    // What is gathered and shared is alike on both ranks; one of them hands rows on.
    const int64_t end = plan->gathered_step_bytes / 2;
    EXPECT_EQ(t_gathered - before, kSteps * plan->gathered_step_bytes + end);
    if (rank == 0) {
      expected = (55 + 4) * plan->gathered_row_bytes + kPieces * plan->gathered_piece_bytes;
    }
  });
  EXPECT_EQ(sent, expected);
}

TEST(RankLayers, ThatCannotBeCutAreRefused) {
  const std::vector<Overrides> too_many(9, {"fabric.split=layers"});
  for (const absl::Status& seen : ErrorsOf(too_many)) {
    EXPECT_EQ(ExitCode(seen), 4);
    EXPECT_THAT(std::string(seen.message()), HasSubstr("cannot be cut into 9 parts"));
  }
}

TEST(RankLayers, EndTogetherWithTheErrorOfOne) {
  const Dealt dealt = RunDealt({4, 2, {"sampler.chain=fails", "fabric.split=layers"}, -1, false});
  for (size_t rank = 0; rank < dealt.of_rank.size(); ++rank) {
    EXPECT_EQ(ExitCode(dealt.of_rank[rank].status()), 6);
    EXPECT_EQ(IsToldElsewhere(dealt.of_rank[rank].status()), rank > 0);
  }
}

TEST(RankLayers, RunInGroupsToo) {
  const Dealt alone = RunDealt({1, 1, {}, -1, false});
  const Dealt dealt = RunDealt({4, 2, {"fabric.split=layers"}, -1, false});
  ASSERT_TRUE(alone.of_rank[0].ok());
  for (const auto& of_rank : dealt.of_rank) ASSERT_TRUE(of_rank.ok()) << of_rank.status();
  ExpectSame(*dealt.of_rank[0], *alone.of_rank[0]);
}

}  // namespace
}  // namespace ng::test
