// Runs over several ranks: every rank has the ids, logits, attention rows and points of one
// process, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ng/conform/fabric.h"
#include "ng/engine.h"
#include "ng/isa.h"
#include "ng/lone_plugin.h"
#include "ng/sampler.h"
#include "tests/plugins/fabric/rank_runs.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;

// `others`: what rank 1 has of its own.
void ExpectRanksAgree(const Case& one, const std::vector<int>& sizes, bool looks = true,
                      const Overrides& others = {}) {
  const auto alone = TryRun(one, false, looks);
  ASSERT_TRUE(alone.ok()) << one.model << ": " << alone.status();
  Case other = one;
  other.overrides.insert(other.overrides.end(), others.begin(), others.end());
  for (const int size : sizes) {
    SCOPED_TRACE(absl::StrCat(one.model, " on ", size, " ranks"));
    std::vector<absl::StatusOr<std::vector<Completion>>> seen(static_cast<size_t>(size));
    OnRanks(size, [&](int rank) {
      seen[static_cast<size_t>(rank)] = TryRun(rank == 1 ? other : one, true, looks);
    });
    for (const auto& of_rank : seen) {
      ASSERT_TRUE(of_rank.ok()) << of_rank.status();
      ExpectSame(*of_rank, *alone);
    }
  }
}

TEST(Ranks, AllEndWithTheErrorOfOneAndTheFirstTellsIt) {
  const std::vector<absl::Status> seen = ErrorsOf({{}, {"model.path=/nowhere"}, {}});
  for (size_t rank = 0; rank < seen.size(); ++rank) {
    EXPECT_EQ(ExitCode(seen[rank]), 3) << seen[rank];
    EXPECT_EQ(IsToldElsewhere(seen[rank]), rank > 0);
  }
  EXPECT_THAT(std::string(seen[0].message()), HasSubstr("rank 1 (thread1): "));
  EXPECT_THAT(std::string(seen[0].message()), HasSubstr("/nowhere"));
}

TEST(Ranks, ThatDoNotRunTheSameAreRefused) {
  for (const absl::Status& seen : ErrorsOf({{}, {"sampler.seed=7"}})) {
    EXPECT_EQ(ExitCode(seen), 1);
    EXPECT_THAT(std::string(seen.message()), HasSubstr("rank 1 (thread1) has another config"));
  }
  const std::string other = absl::StrCat("model.path=", kGolden, "llama/untied");
  for (const absl::Status& seen : ErrorsOf({{}, {other}})) {
    EXPECT_EQ(ExitCode(seen), 1);
    EXPECT_THAT(std::string(seen.message()), HasSubstr("has another model"));
  }
}

TEST(Ranks, OfAProgramThatCannotBeSeveralAreRefused) {
  OnRanks(2, [&](int rank) {
    EngineOptions options;
    options.overrides = {absl::StrCat("model.path=", kGolden, "llama/tied_gqa"), "run.threads=1",
                         "fabric.name=threads"};
    options.plugins = {{&kThreadRanks, "the test"}};
    const absl::Status opened = Engine::Open(options).status();
    EXPECT_EQ(ExitCode(opened), 2) << rank;
    EXPECT_THAT(std::string(opened.message()), HasSubstr("2 ranks: this program is one process"));
  });
}

TEST(Ranks, OfACacheThatLetsTokensGoAreRefused) {
  for (const char* const split : {"heads", "layers"}) {
    const Overrides budget = {"cache.name=budget", "cache.budget.tokens=40",
                              absl::StrCat("fabric.split=", split)};
    const std::vector<absl::Status> seen = ErrorsOf({budget, budget});
    EXPECT_EQ(ExitCode(seen[0]), 4) << seen[0];
    EXPECT_THAT(std::string(seen[0].message()),
                HasSubstr("lets tokens leave by what all kv heads hold, which no process of "
                          "several has; contiguous and paged run with fabric.name = threads"));
  }
}

TEST(Ranks, AreAllStoppedByOne) {
  std::atomic<bool> stop = true;
  const std::string model = absl::StrCat(kGolden, "llama/tied_gqa");
  std::vector<absl::StatusOr<std::vector<Completion>>> seen(2);
  OnRanks(2, [&](int rank) {
    seen[static_cast<size_t>(rank)] = TryRun({model}, true, true, rank == 1 ? &stop : nullptr);
  });
  // The flag was there before the weights were read.
  for (const auto& of_rank : seen) {
    EXPECT_TRUE(absl::IsCancelled(of_rank.status())) << of_rank.status();
  }
}

// Shapes whose heads and inner columns can be cut between groups of 32.
constexpr char kDense[] = R"({"model_type": "llama", "hidden_size": 128, "intermediate_size": 216,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "vocab_size": 97, "max_position_embeddings": 64, "rms_norm_eps": 1e-5})";
constexpr char kExperts[] = R"({"model_type": "qwen2_moe", "hidden_size": 128,
    "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 97, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6, "num_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 96, "shared_expert_intermediate_size": 160})";

// What is gathered in a run is what its plan says of each row.
TEST(Ranks, GatherTheBytesThatThePlanSays) {
  const TempDir temp;
  for (const std::string name : {"llama/tied_gqa", "qwen3_moe/tiny", "mistral/window", "gpt2/tiny",
                                 "int8", "int4 experts"}) {
    SCOPED_TRACE(name);
    EngineOptions options = GreedyRank(name);
    if (name.starts_with("int")) {
      options.overrides[0] = "model.weights=" + name.substr(0, 4);
      options.random_weights = temp.Write(name + ".json", name == "int8" ? kDense : kExperts);
    }
    OnRanks(2, [&](int /*rank*/) {
      const auto engine = Engine::Open(options);
      ASSERT_TRUE(engine.ok()) << engine.status();
      const std::vector<GenerateRequest> requests = {
          {.prompt_ids = {3, 1, 4, 1, 5, 9, 2}, .max_new_tokens = 5}};
      const auto plan = (*engine)->Plan(Needs(requests));
      ASSERT_TRUE(plan.ok() && (*engine)->Load(Needs(requests)).ok());
      const int64_t before = t_gathered;
      ASSERT_TRUE((*engine)->Generate(requests, {}).ok());
      constexpr int64_t kRows = 7 + 4;
      constexpr int64_t kSteps = 5;
      constexpr int64_t kMeetings = kSteps + 1;  // each step, and the end
      EXPECT_GT(plan->gathered_row_bytes, 0);
      EXPECT_EQ(t_gathered - before, kRows * plan->gathered_row_bytes +
                                         kSteps * plan->gathered_logit_bytes +
                                         kMeetings * plan->gathered_step_bytes);
      EXPECT_GT(plan->gathers, 0);
    });
  }
}

TEST(Ranks, GiveRowsAsTheNextMatrixReadsThemWithTheBitsOfOneProcess) {
  const TempDir temp;
  for (const char* shape : {kDense, kExperts}) {
    const std::string path = temp.Write("shape.json", shape);
    for (const char* weights : {"int8", "int4", "bf16"}) {
      ExpectRanksAgree({path, {absl::StrCat("model.weights=", weights)}}, {2, 3}, false);
    }
    // Levels of one arithmetic that read rounded rows in two layouts.
    for (const IsaLevel level : SupportedIsaLevels()) {
      if (ArithmeticOf(level).ToString() != ArithmeticOf(IsaLevel::kScalar).ToString()) continue;
      ExpectRanksAgree({path, {"model.weights=int8", "run.isa=scalar"}}, {2}, false,
                       {"run.isa=" + std::string(IsaName(level))});
    }
  }
  for (const std::string& model : Models()) {
    ExpectRanksAgree({model, {"model.weights=int8"}}, {2}, false);
  }
}

TEST(Ranks, GiveAQuarterOfTheBytesWhereTheNextMatrixReadsRoundedRows) {
  const TempDir temp;
  const std::string path = temp.Write("shape.json", kDense);
  const auto row_bytes = [&](const char* weights, int ranks) {
    int64_t bytes = 0;
    OnRanks(ranks, [&](int rank) {
      EngineOptions options = GreedyRank("llama/tied_gqa");
      options.overrides[0] = absl::StrCat("model.weights=", weights);
      options.random_weights = path;
      const auto engine = Engine::Open(options);
      ASSERT_TRUE(engine.ok()) << engine.status();
      const auto plan = (*engine)->Plan({.max_tokens = 8});
      ASSERT_TRUE(plan.ok()) << plan.status();
      if (rank == 0) bytes = plan->gathered_row_bytes;
    });
    return bytes;
  };
  // Twice in each of two layers 128 columns of the stream; heads of 128, inner columns of 216.
  constexpr int64_t kStream = 2 * 2 * 128 * 4;
  EXPECT_EQ(row_bytes("f32", 2), kStream + 2 * (128 + 216) * 4);
  EXPECT_EQ(row_bytes("int8", 2), kStream + 2 * (4 + 7) * 40);
  // More ranks than heads, which are not cut then, and than groups.
  EXPECT_EQ(row_bytes("int8", 8), kStream + 2 * 216 * 4);
}

TEST(Ranks, DraftAsOneProcessDoes) {
  const std::string model = absl::StrCat(kGolden, "llama/tied_gqa");
  for (const bool ranks : {false, true}) {
    std::vector<std::vector<int32_t>> ids(3);
    OnRanks(ranks ? 3 : 1, [&](int rank) {
      EngineOptions options;
      options.overrides = {"model.path=" + model, "run.threads=1",      "sampler.chain=greedy",
                           "run.stop_ids=",       "drafter.name=ngram", "drafter.ngram.min=1"};
      options.plugins = {{&kThreadRanks, "the test"}};
      options.ranks = true;
      if (ranks) options.overrides.emplace_back("fabric.name=threads");
      const auto engine = Engine::Open(options);
      ASSERT_TRUE(engine.ok()) << engine.status();
      const std::vector<GenerateRequest> requests = {
          {.prompt_ids = {3, 1, 3, 1, 3, 1, 3}, .max_new_tokens = 40}};
      ASSERT_TRUE((*engine)->Load(Needs(requests)).ok());
      const auto done = (*engine)->Generate(requests, {});
      ASSERT_TRUE(done.ok()) << done.status();
      EXPECT_GT(done->front().timings.drafted_tokens, 0);
      ids[static_cast<size_t>(rank)] = done->front().ids;
    });
    static std::vector<int32_t> alone;
    if (!ranks) {
      alone = ids[0];
      continue;
    }
    for (const std::vector<int32_t>& of_rank : ids) EXPECT_EQ(of_rank, alone);
  }
}

TEST(ThreadRanks, Conform) {
  OnRanks(3, [](int /*rank*/) {
    const conform::FabricSubject subject = {.settings = {.quick = true},
                                            .make = ThreadRank::Create};
    EXPECT_THAT(conform::CheckFabric(subject), ::testing::IsEmpty());
  });
}

// Under mpirun, on every rank: MpiRun.FabricConforms starts it.
TEST(MpiRanks, Conform) {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) GTEST_SKIP() << "not started by mpirun";
  const auto plugin = LonePlugin::Open(NG_BINARY_DIR "/lib/ng/plugins/ng_fabric_mpi.so", {}, {});
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  const conform::FabricSubject subject = {
      .settings = {.quick = true},
      .make = [&](auto& context, auto& spec) { return (*plugin)->CreateFabric(context, spec); }};
  EXPECT_THAT(conform::CheckFabric(subject), ::testing::IsEmpty());
}

// Under mpirun on three ranks: MpiRun.NamesTheRankThatStandsStill starts it. Rank 2 gives up first,
// and waits for one that itself waits. Its exit code ends all.
TEST(MpiRanks, NameTheOneThatStandsStill) {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) GTEST_SKIP() << "not started by mpirun";
  const auto plugin = LonePlugin::Open(NG_BINARY_DIR "/lib/ng/plugins/ng_fabric_mpi.so", {}, {});
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  const auto fabric = (*plugin)->CreateFabric({}, {.deadline_s = 1.0});
  ASSERT_TRUE(fabric.ok() && (*fabric)->size() == 3) << fabric.status();
  const int rank = (*fabric)->rank();
  std::array<std::byte, 8> bytes = {};
  if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(80));
  if (rank > 0) {
    const absl::Status lost = (*fabric)->Receive(rank - 1, bytes);
    const bool well = (*fabric)->Missing() == 0 && absl::StrContains(lost.message(), "rank 0 (") &&
                      absl::StrContains(lost.message(), "did not answer within 1 s");
    if (rank == 2 || !well) std::_Exit(well ? 42 : 1);
  }
  std::this_thread::sleep_for(std::chrono::seconds(5));
}

// The same of one that stops in the middle of a wait that it has told of: MpiRun.NamesTheRank*
// starts it. Rank 1 comes late, and then nobody waits for it any more.
TEST(MpiRanks, NameTheOneThatStopsWhileItWaits) {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) GTEST_SKIP() << "not started by mpirun";
  const auto plugin = LonePlugin::Open(NG_BINARY_DIR "/lib/ng/plugins/ng_fabric_mpi.so", {}, {});
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  const auto fabric = (*plugin)->CreateFabric({}, {.deadline_s = 2.0});
  ASSERT_TRUE(fabric.ok() && (*fabric)->size() == 3) << fabric.status();
  const int rank = (*fabric)->rank();
  const std::jthread stops([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(900));
    if (rank == 0) (void)raise(SIGSTOP);
  });
  if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_TRUE((*fabric)->Barrier().ok());
  // Both find it at the same time; the first exit code ends all.
  const absl::Status lost = (*fabric)->Barrier();
  const bool well = (*fabric)->Missing() == 0 && absl::StrContains(lost.message(), "rank 0 (");
  if (rank == 2 || !well) std::_Exit(well ? 42 : 1);
  std::this_thread::sleep_for(std::chrono::seconds(5));
}

TEST(Ranks, HaveTheBitsOfOneProcessInEveryFamily) {
  const std::vector<std::string> models = Models();
  ASSERT_GT(models.size(), 40U);
  for (const std::string& model : models) ExpectRanksAgree({model}, {2, 3, 4});
}

TEST(Ranks, HaveTheBitsOfOneProcessWithEveryWeightTypeCacheAndChunk) {
  const std::string model = absl::StrCat(kGolden, "llama/tied_gqa");
  for (const char* weights : {"f32", "bf16", "f16", "int8", "int4"}) {
    ExpectRanksAgree({model, {absl::StrCat("model.weights=", weights)}}, {1, 2});
  }
  for (const char* codec : {"bf16", "int8", "int4"}) {
    ExpectRanksAgree({model, {absl::StrCat("cache.codec=", codec), "cache.name=paged"}}, {2});
  }
  ExpectRanksAgree({model, {"run.prefill_chunk=2", "attention.name=reference"}}, {2});
}

}  // namespace
}  // namespace ng::test
