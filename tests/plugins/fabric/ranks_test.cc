// Runs over several ranks: every rank has the ids, logits, attention rows and points of one
// process, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
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
#include "tests/plugins/fabric/thread_ranks.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

using ::testing::HasSubstr;
using Overrides = std::vector<std::string>;

constexpr char kGolden[] = NG_TEST_DATA "/golden/";

struct Case {
  std::string model;  // a shape (.json) gets random weights
  Overrides overrides = {};
  std::vector<int32_t> prompt = {3, 1, 4, 1, 5, 9, 2};
};

// Of a rank that draws nothing.
EngineOptions GreedyRank(const std::string& model) {
  EngineOptions options;
  options.overrides = {absl::StrCat("model.path=", kGolden, model),
                       "run.threads=1",
                       "fabric.name=threads",
                       "run.model_defaults=false",
                       "sampler.chain=greedy",
                       "run.stop_ids="};
  options.plugins = {{&test::kThreadRanks, "the test"}};
  options.ranks = true;
  return options;
}

// `looks`: keeps attention rows and points, which ranks with some of the layers do not have.
absl::StatusOr<std::vector<Completion>> TryRun(const Case& one, bool ranks, bool looks = true,
                                               const std::atomic<bool>* stop = nullptr) {
  EngineOptions options;
  options.overrides = {"run.threads=1", "run.model_defaults=false", "sampler.chain=greedy",
                       "run.stop_ids="};
  if (one.model.ends_with(".json")) {
    options.random_weights = one.model;
  } else {
    options.overrides.push_back("model.path=" + one.model);
  }
  options.overrides.insert(options.overrides.end(), one.overrides.begin(), one.overrides.end());
  options.stop = stop;
  options.ranks = true;
  if (ranks) {
    options.plugins = {{&test::kThreadRanks, "the test"}};
    options.overrides.emplace_back("fabric.name=threads");
    options.overrides.emplace_back("run.check_plugins=true");
  }
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Open(options));
  const std::vector<GenerateRequest> requests = {{.prompt_ids = one.prompt, .max_new_tokens = 3},
                                                 {.prompt_ids = {2, 7}, .max_new_tokens = 4}};
  RunNeeds needs = Needs(requests);
  needs.prompt_logits = true;
  NG_RETURN_IF_ERROR(engine->Load(needs));
  GenerateOptions keep;
  keep.capture_logits = keep.capture_decode_logits = true;
  if (!looks) return engine->Generate(requests, keep);
  keep.capture_attn_full = true;
  keep.trace_layers.assign(engine->attention_layers().begin(), engine->attention_layers().end());
  for (const PointShape& shape : engine->points()) keep.capture_points.push_back(shape.at);
  return engine->Generate(requests, keep);
}

// Compares bits; NaN never comes here.
void ExpectSame(const std::vector<Completion>& a, const std::vector<Completion>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].ids, b[i].ids);
    EXPECT_EQ(a[i].captured.logits, b[i].captured.logits);
    EXPECT_EQ(a[i].captured.decode_logits, b[i].captured.decode_logits);
    ASSERT_EQ(a[i].captured.attn_full.size(), b[i].captured.attn_full.size());
    for (size_t row = 0; row < a[i].captured.attn_full.size(); ++row) {
      ASSERT_EQ(a[i].captured.attn_full[row].probs, b[i].captured.attn_full[row].probs);
    }
    ASSERT_EQ(a[i].captured.points.size(), b[i].captured.points.size());
    for (size_t point = 0; point < a[i].captured.points.size(); ++point) {
      EXPECT_EQ(a[i].captured.points[point].rows, b[i].captured.points[point].rows)
          << PointText(a[i].captured.points[point].at);
    }
  }
}

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
    test::OnRanks(size, [&](int rank) {
      seen[static_cast<size_t>(rank)] = TryRun(rank == 1 ? other : one, true, looks);
    });
    for (const auto& of_rank : seen) {
      ASSERT_TRUE(of_rank.ok()) << of_rank.status();
      ExpectSame(*of_rank, *alone);
    }
  }
}

// Of a run by layers: whether it can be cut so.
bool ExpectLayersAgree(Case one, int size) {
  const auto alone = TryRun(one, false, false);
  EXPECT_TRUE(alone.ok()) << one.model << ": " << alone.status();
  one.overrides.emplace_back("fabric.split=layers");
  SCOPED_TRACE(absl::StrCat(one.model, " by layers on ", size, " ranks"));
  std::vector<absl::StatusOr<std::vector<Completion>>> seen(static_cast<size_t>(size));
  test::OnRanks(size,
                [&](int rank) { seen[static_cast<size_t>(rank)] = TryRun(one, true, false); });
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

// Every model of the goldens that ng opens.
std::vector<std::string> Models() {
  std::vector<std::string> models;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kGolden)) {
    const std::string name = entry.path().filename();
    if (name == "config.json") models.push_back(entry.path().parent_path());
    if (entry.path().extension() == ".gguf") models.push_back(entry.path());
  }
  std::ranges::sort(models);
  return models;
}

// The error that each rank ends with, when rank r runs with overrides[r].
std::vector<absl::Status> ErrorsOf(const std::vector<Overrides>& overrides) {
  const std::string model = absl::StrCat(kGolden, "llama/tied_gqa");
  std::vector<absl::Status> seen(overrides.size());
  test::OnRanks(static_cast<int>(overrides.size()), [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    seen[at] = TryRun({model, overrides[at]}, true).status();
  });
  return seen;
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
  test::OnRanks(2, [&](int rank) {
    EngineOptions options;
    options.overrides = {absl::StrCat("model.path=", kGolden, "llama/tied_gqa"), "run.threads=1",
                         "fabric.name=threads"};
    options.plugins = {{&test::kThreadRanks, "the test"}};
    const absl::Status opened = Engine::Open(options).status();
    EXPECT_EQ(ExitCode(opened), 2) << rank;
    EXPECT_THAT(std::string(opened.message()), HasSubstr("2 ranks: this program is one process"));
  });
}

TEST(Ranks, AreAllStoppedByOne) {
  std::atomic<bool> stop = true;
  const std::string model = absl::StrCat(kGolden, "llama/tied_gqa");
  std::vector<absl::StatusOr<std::vector<Completion>>> seen(2);
  test::OnRanks(2, [&](int rank) {
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
  const test::TempDir temp;
  for (const std::string name : {"llama/tied_gqa", "qwen3_moe/tiny", "mistral/window", "gpt2/tiny",
                                 "int8", "int4 experts"}) {
    SCOPED_TRACE(name);
    EngineOptions options = GreedyRank(name);
    if (name.starts_with("int")) {
      options.overrides[0] = "model.weights=" + name.substr(0, 4);
      options.random_weights = temp.Write(name + ".json", name == "int8" ? kDense : kExperts);
    }
    test::OnRanks(2, [&](int /*rank*/) {
      const auto engine = Engine::Open(options);
      ASSERT_TRUE(engine.ok()) << engine.status();
      const std::vector<GenerateRequest> requests = {
          {.prompt_ids = {3, 1, 4, 1, 5, 9, 2}, .max_new_tokens = 5}};
      const auto plan = (*engine)->Plan(Needs(requests));
      ASSERT_TRUE(plan.ok() && (*engine)->Load(Needs(requests)).ok());
      const int64_t before = test::t_gathered;
      ASSERT_TRUE((*engine)->Generate(requests, {}).ok());
      constexpr int64_t kRows = 7 + 4;
      constexpr int64_t kSteps = 5;
      constexpr int64_t kMeetings = kSteps + 1;  // each step, and the end
      EXPECT_GT(plan->gathered_row_bytes, 0);
      EXPECT_EQ(test::t_gathered - before, kRows * plan->gathered_row_bytes +
                                               kSteps * plan->gathered_logit_bytes +
                                               kMeetings * plan->gathered_step_bytes);
      EXPECT_GT(plan->gathers, 0);
    });
  }
}

TEST(Ranks, GiveRowsAsTheNextMatrixReadsThemWithTheBitsOfOneProcess) {
  const test::TempDir temp;
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
  const test::TempDir temp;
  const std::string path = temp.Write("shape.json", kDense);
  const auto row_bytes = [&](const char* weights, int ranks) {
    int64_t bytes = 0;
    test::OnRanks(ranks, [&](int rank) {
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
    test::OnRanks(ranks ? 3 : 1, [&](int rank) {
      EngineOptions options;
      options.overrides = {"model.path=" + model, "run.threads=1",      "sampler.chain=greedy",
                           "run.stop_ids=",       "drafter.name=ngram", "drafter.ngram.min=1"};
      options.plugins = {{&test::kThreadRanks, "the test"}};
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

// A sampler's stage that fails for the sixth prompt.
class FailsForOne final : public SamplerStage {
 public:
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(const PluginContext& /*context*/) {
    return std::make_unique<FailsForOne>();
  }
  absl::Status Apply(int /*slot*/, const DrawKey& key, CandidateSet& /*candidates*/) override {
    return key.request == 5 ? NumericError("no") : absl::OkStatus();
  }
};
constexpr PluginDescriptor kFailsForOne =
    SamplerPlugin<FailsForOne::Create>("fails", "1.0.0", "fails for one", {});

// What rank 0 of a dealt run sees: "3.0" is step 0 of request 3, "3." its end.
struct Dealt {
  std::vector<absl::StatusOr<std::vector<Completion>>> of_rank;
  std::vector<std::string> told;
};

struct DealtCase {
  int ranks;
  int groups;
  Overrides overrides = {};
  int stopped = -1;  // the rank that is stopped at its first steps; -1: none
  bool looks = true;
};

Dealt RunDealt(const DealtCase& one) {
  Dealt dealt;
  dealt.of_rank.resize(static_cast<size_t>(one.ranks));
  std::vector<GenerateRequest> requests;
  for (int32_t i = 0; i < 11; ++i) {
    requests.push_back({.prompt_ids = {3, 1, i, 4}, .max_new_tokens = 1 + i * 5 % 7});
  }
  test::OnRanks(one.ranks, [&](int rank) {
    EngineOptions options;
    std::atomic<bool> stop = false;
    options.stop = &stop;
    options.overrides = {absl::StrCat("model.path=", kGolden, "llama/tied_gqa"),
                         "run.threads=1",
                         "run.model_defaults=false",
                         "run.stop_ids=",
                         "sampler.chain=temperature,top_k",
                         "cache.max_sequences=2",
                         "run.check_plugins=true",
                         absl::StrCat("fabric.groups=", one.groups)};
    if (one.ranks > 1) options.overrides.emplace_back("fabric.name=threads");
    options.overrides.insert(options.overrides.end(), one.overrides.begin(), one.overrides.end());
    options.plugins = {{&test::kThreadRanks, "the test"}, {&kFailsForOne, "the test"}};
    options.ranks = true;
    auto& own = dealt.of_rank[static_cast<size_t>(rank)];
    const auto engine = Engine::Open(options);
    if (!engine.ok()) {
      own = engine.status();
      return;
    }
    ASSERT_TRUE((*engine)->Load(Needs(requests)).ok());
    stop = rank == one.stopped;
    GenerateOptions keep;
    keep.capture_decode_logits = keep.steps = true;
    if (one.looks) keep.trace_layers = {0};
    keep.on_step = [&](int index, const StepRecord& record) {
      EXPECT_EQ(rank, 0);
      EXPECT_FALSE(record.top_k.empty() || (one.looks && record.attn_rows.empty()));
      dealt.told.push_back(absl::StrCat(index, ".", record.step));
      return absl::OkStatus();
    };
    keep.on_done = [&](int index, const Completion& /*completion*/) {
      dealt.told.push_back(absl::StrCat(index, "."));
      return absl::OkStatus();
    };
    own = (*engine)->Generate(requests, keep);
  });
  return dealt;
}

TEST(RankGroups, GiveWhatOneProcessGivesInTheOrderOfThePrompts) {
  const Dealt alone = RunDealt({1, 1});
  ASSERT_TRUE(alone.of_rank[0].ok()) << alone.of_rank[0].status();
  for (const DealtCase& one : std::vector<DealtCase>{{2, 2}, {4, 2}, {3, 3}, {6, 2}}) {
    SCOPED_TRACE(absl::StrCat(one.ranks, " ranks, ", one.groups, " groups"));
    const Dealt dealt = RunDealt(one);
    for (const auto& of_rank : dealt.of_rank) ASSERT_TRUE(of_rank.ok()) << of_rank.status();
    ExpectSame(*dealt.of_rank[0], *alone.of_rank[0]);
    for (size_t i = 0; i < alone.of_rank[0]->size(); ++i) {
      EXPECT_EQ((*dealt.of_rank[0])[i].timings.decode_tokens,
                (*alone.of_rank[0])[i].timings.decode_tokens);
      EXPECT_TRUE((*dealt.of_rank.back())[i].ids.empty());
    }
    std::vector<std::string> in_order;
    for (size_t i = 0; i < alone.of_rank[0]->size(); ++i) {
      const int64_t n_steps = std::ssize((*alone.of_rank[0])[i].ids) - 4;
      for (int64_t step = 0; step < n_steps; ++step) {
        in_order.push_back(absl::StrCat(i, ".", step));
      }
      in_order.push_back(absl::StrCat(i, "."));
    }
    EXPECT_EQ(dealt.told, in_order);
  }
}

TEST(RankGroups, EndTogetherWithTheErrorOfOneWhichRank0Tells) {
  const Dealt dealt = RunDealt({4, 2, {"sampler.chain=fails"}});
  for (size_t rank = 0; rank < dealt.of_rank.size(); ++rank) {
    const absl::Status& seen = dealt.of_rank[rank].status();
    EXPECT_FALSE(seen.ok());
    EXPECT_EQ(seen.code(), dealt.of_rank[0].status().code());
    EXPECT_EQ(IsToldElsewhere(seen), rank > 0) << seen;
  }
  EXPECT_THAT(std::string(dealt.of_rank[0].status().message()), HasSubstr("fails"));
  // As after an error of one process: everything has been reported.
  EXPECT_EQ(std::ranges::count_if(dealt.told, [](auto& one) { return one.back() == '.'; }), 11);
}

TEST(RankGroups, AreAllStoppedByOneRank) {
  for (const int stopped : {0, 1, 2, 3}) {
    const Dealt dealt = RunDealt({4, 2, {}, stopped});
    for (const auto& of_rank : dealt.of_rank) {
      ASSERT_TRUE(of_rank.ok()) << of_rank.status();
      EXPECT_EQ(of_rank->back().stop_reason, StopReason::kInterrupted);
    }
    EXPECT_EQ(dealt.told.back(), "10.");
  }
}

TEST(RankGroups, ThatTheRanksDoNotMakeAreRefused) {
  for (const auto& of_rank : RunDealt({4, 3}).of_rank) {
    EXPECT_EQ(ExitCode(of_rank.status()), 2);
    EXPECT_THAT(std::string(of_rank.status().message()),
                HasSubstr("= 3: 4 ranks do not make 3 groups of the same size"));
  }
  EXPECT_EQ(ExitCode(RunDealt({1, 2}).of_rank[0].status()), 2);
}

TEST(ThreadRanks, Conform) {
  test::OnRanks(3, [](int /*rank*/) {
    const conform::FabricSubject subject = {.settings = {.quick = true},
                                            .make = test::ThreadRank::Create};
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
  const auto fabric = (*plugin)->CreateFabric({}, {.deadline_s = 0.4});
  ASSERT_TRUE(fabric.ok() && (*fabric)->size() == 3) << fabric.status();
  const int rank = (*fabric)->rank();
  std::array<std::byte, 8> bytes = {};
  if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(80));
  if (rank > 0) {
    const absl::Status lost = (*fabric)->Receive(rank - 1, bytes);
    const bool well = (*fabric)->Missing() == 0 && absl::StrContains(lost.message(), "rank 0 (") &&
                      absl::StrContains(lost.message(), "did not answer within 0.4 s");
    if (rank == 2 || !well) std::_Exit(well ? 42 : 1);
  }
  std::this_thread::sleep_for(std::chrono::seconds(5));
}

TEST(RankLayers, HaveTheBitsOfOneProcessInEveryFamily) {
  int n_cut = 0;
  for (const std::string& model : Models()) {
    for (const int size : {2, 3}) n_cut += ExpectLayersAgree({model}, size) ? 1 : 0;
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

TEST(RankLayers, HoldTheirOwnLayersAlone) {
  std::vector<RunPlan> plans(3);
  for (const int size : {1, 2}) {
    test::OnRanks(size, [&](int rank) {
      EngineOptions options;
      options.overrides = {absl::StrCat("model.path=", kGolden, "llama/untied"), "run.threads=1",
                           "fabric.name=threads", "fabric.split=layers"};
      options.plugins = {{&test::kThreadRanks, "the test"}};
      options.ranks = true;
      const auto engine = Engine::Open(options);
      ASSERT_TRUE(engine.ok()) << engine.status();
      const auto plan = (*engine)->Plan({.max_tokens = 50});
      ASSERT_TRUE(plan.ok()) << plan.status();
      plans[static_cast<size_t>(size - 1 + rank)] = *plan;
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
  const test::TempDir temp;
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
    test::OnRanks(3, [&](int rank) { plans[static_cast<size_t>(rank)] = plan_of(0, max_tokens); });
    const RunPlan& most = *std::ranges::max_element(plans, {}, &RunPlan::needed_bytes);
    EXPECT_EQ(most.rank == 1, max_tokens == 4000);
    const RunPlan planned = plan_of(3, max_tokens);
    EXPECT_EQ(planned.rank, most.rank);
    EXPECT_EQ(planned.needed_bytes(), most.needed_bytes());
    if (max_tokens == 4000)
      EXPECT_LT(3 * planned.activation_bytes, plan_of(1, 4000).activation_bytes);
  }
}

TEST(RankLayers, SendTheBytesThatThePlanSays) {
  std::atomic<int64_t> sent = 0;
  int64_t expected = 0;
  test::OnRanks(2, [&](int rank) {
    EngineOptions options = GreedyRank("llama/tied_gqa");
    options.overrides.emplace_back("fabric.split=layers");
    const auto engine = Engine::Open(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    const std::vector<GenerateRequest> requests = {
        {.prompt_ids = std::vector<int32_t>(55, 5), .max_new_tokens = 5}};
    const auto plan = (*engine)->Plan(Needs(requests));
    ASSERT_TRUE(plan.ok() && (*engine)->Load(Needs(requests)).ok());
    const int64_t before = test::t_gathered;
    ASSERT_TRUE((*engine)->Generate(requests, {}).ok());
    sent += test::t_sent;
    constexpr int64_t kSteps = 5;
    constexpr int64_t kPieces = 2 + 4;  // of 32 and 23 rows, then of one
    // What is gathered and shared is alike on both ranks; one of them hands rows on.
    const int64_t end = plan->gathered_step_bytes / 2;
    EXPECT_EQ(test::t_gathered - before, kSteps * plan->gathered_step_bytes + end);
    if (rank == 0) {
      expected = (55 + 4) * plan->gathered_row_bytes + kPieces * plan->gathered_piece_bytes;
    }
  });
  EXPECT_EQ(sent, expected);
}

TEST(RankLayers, ThatCannotBeSeenOrCutAreRefused) {
  const std::string model = absl::StrCat(kGolden, "llama/tied_gqa");
  for (const absl::Status& seen : ErrorsOf({{"fabric.split=layers"}, {"fabric.split=layers"}})) {
    EXPECT_EQ(ExitCode(seen), 2);
    EXPECT_THAT(std::string(seen.message()), HasSubstr("fabric.split = layers: attention rows"));
  }
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
}  // namespace ng
