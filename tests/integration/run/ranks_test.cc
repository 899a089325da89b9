// Whole runs of several processes under mpirun: what one process writes, bit for bit, once; and how
// they end when one of them is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kGoldens[] = NG_TEST_DATA "/golden/";
// Quiet, as OpenMPI 4 can be. OpenMPI 5 complains of TCP where a machine has no network; all ranks
// are on this one.
const Arguments kMpirun = {"mpirun",
                           "--allow-run-as-root",
                           "--oversubscribe",
                           "--mca",
                           "orte_execute_quiet",
                           "1",
                           "--mca",
                           "btl",
                           "^tcp",
                           "--mca",
                           "btl_vader_single_copy_mechanism",
                           "none"};

// Without mpirun's own words about how its processes ended, which are between two lines of dashes.
Result WithoutMpirunsWords(Result result) {
  std::string err;
  bool own = false;
  for (const absl::string_view line : absl::StrSplit(result.err, '\n')) {
    const bool dashes = line.size() > 70 && line.find_first_not_of('-') == line.npos;
    if (!own && !dashes) absl::StrAppend(&err, line, "\n");
    own = own != dashes;
  }
  if (!err.empty()) err.pop_back();  // what follows the last line's end is no line
  result.err = err;
  return result;
}

Result Mpirun(const Arguments& arguments, const std::string& input = "") {
  Command command;
  command.program = "/usr/bin/env";
  command.arguments = kMpirun + arguments;
  command.input = input;
  return WithoutMpirunsWords(test::Run(command));
}

const char* const kNgRun = NG_BINARY_DIR "/bin/ng-run";

Result OnRanks(int n, const Arguments& arguments, const std::string& input = "") {
  return Mpirun(Arguments{"-n", absl::StrCat(n), kNgRun, "--fabric.name=mpi"} + arguments, input);
}

class MpiRun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(NG_BINARY_DIR "/lib/ng/plugins/ng_fabric_mpi.so")) {
      GTEST_SKIP() << "the fabric mpi is not built: libopenmpi-dev";
    }
    static const bool runs = Mpirun({"-n", "2", "true"}).exit_code == 0;
    if (!runs) GTEST_SKIP() << "mpirun starts no two processes here: openmpi-bin";
  }

  TempDir temp_;
};

struct RankCase {
  int ranks;
  const char* model;
  Arguments keys = {};
};

TEST_F(MpiRun, WritesWhatOneProcessWrites) {
  const std::string prompts =
      temp_.Write("prompts", "{\"prompt_ids\": [3, 1, 4, 1, 5, 9, 2]}\n{\"prompt_ids\": [2, 7]}\n");
  const RankCase cases[] = {
      {2, "llama/tied_gqa", {"--model.weights=int8", "--cache.name=paged", "--cache.codec=int8"}},
      {3, "qwen3_moe/tiny"},
      {2, "mistral/window", {"--run.prefill_chunk=2"}},
      {3, "gpt2/tiny"},
      {2, "gguf/llama/model-Q4_K_M.gguf"}};
  for (const RankCase& one : cases) {
    SCOPED_TRACE(one.model);
    const auto run = [&](const std::string& as) {
      return Arguments{absl::StrCat("--model.path=", kGoldens, one.model),
                       "--run.threads=1",
                       "--sampler.chain=temperature,top_k",
                       "--run.max_new_tokens=5",
                       "--run.stop_ids=",
                       "--output=jsonl",
                       "--prompts",
                       prompts,
                       "--trace-layer=0",
                       "--save-tensors=logits,decode_logits,attn_row,layer0.out",
                       "--save",
                       temp_.File(as + ".save"),
                       "--steps",
                       temp_.File(as + ".steps"),
                       "--record",
                       temp_.File(as + ".record")} +
             one.keys;
    };
    const Result alone = NgRun(run("alone"));
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    const Result ranks = OnRanks(one.ranks, run("ranks"));
    ASSERT_EQ(ranks.exit_code, 0) << ranks.err;
    const std::vector<Json> expected = JsonLines(alone.out);
    const std::vector<Json> lines = JsonLines(ranks.out);
    ASSERT_EQ(lines.size(), 2U) << ranks.out;
    for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i]["ids"], expected[i]["ids"]);
    EXPECT_EQ(ReadFile(temp_.File("ranks.steps")), ReadFile(temp_.File("alone.steps")));
    const auto tensors = ReadTensors(temp_.File("ranks.save"));
    EXPECT_EQ(tensors.size(), ReadTensors(temp_.File("alone.save")).size());
    for (const auto& [name, tensor] : ReadTensors(temp_.File("alone.save"))) {
      ASSERT_EQ(tensors.count(name), 1U) << name;
      EXPECT_EQ(tensors.at(name).data, tensor.data) << name;
    }
    // The same lines as of one process, each once.
    EXPECT_EQ(std::count(ranks.err.begin(), ranks.err.end(), '\n'),
              std::count(alone.err.begin(), alone.err.end(), '\n'))
        << ranks.err;
  }
  // The other way round: one process runs again what three have recorded.
  const Result replayed = NgRun({"--replay", temp_.File("ranks.record"), "--fabric.name=local"});
  EXPECT_EQ(replayed.exit_code, 0) << replayed.err;
  EXPECT_THAT(replayed.err, HasSubstr("replay equal"));
}

TEST_F(MpiRun, DraftsAndReadsThePromptThatOneOfThemIsGiven) {
  const Arguments run =
      Demo() + Arguments{"--sampler.chain=greedy", "--run.max_new_tokens=24",
                         "--drafter.name=ngram", "--drafter.ngram.min=1", "--run.threads=1"};
  const std::string text = "To be, or not to be: to be or";
  const Result alone = NgRun(run, text);
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const Result ranks = OnRanks(2, run, text);
  EXPECT_EQ(ranks.exit_code, 0) << ranks.err;
  EXPECT_EQ(ranks.out, alone.out);
}

TEST_F(MpiRun, WritesByLayersWhatOneProcessWrites) {
  std::string prompts = "{\"prompt_ids\": [2, 7]}\n{\"prompt_ids\": [3";
  for (int i = 0; i < 44; ++i) absl::StrAppend(&prompts, ", ", i * 7 % 40);
  prompts += "]}\n";
  const RankCase cases[] = {{3, "qwen3_moe/tiny"},
                            {2, "mistral/window", {"--cache.name=paged", "--cache.codec=int8"}},
                            {4, "llama/untied", {"--fabric.groups=2"}}};
  for (const RankCase& one : cases) {
    SCOPED_TRACE(one.model);
    const auto run = [&](const std::string& as) {
      return Arguments{absl::StrCat("--model.path=", kGoldens, one.model),
                       "--run.threads=1",
                       "--sampler.chain=temperature,top_k",
                       "--run.max_new_tokens=5",
                       "--run.stop_ids=",
                       "--prompts",
                       temp_.Write("prompts", prompts),
                       "--trace-layer=1",
                       "--save-tensors=logits,decode_logits,attn_row,layer*.out,norm",
                       "--record",
                       temp_.File(as + ".record"),
                       "--save",
                       temp_.File(as)};
    };
    Arguments keys = one.keys;
    std::erase(keys, "--fabric.groups=2");
    const Result alone = NgRun(run("alone") + keys);
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    const Result ranks =
        OnRanks(one.ranks, run("ranks") + one.keys + Arguments{"--fabric.split=layers"});
    ASSERT_EQ(ranks.exit_code, 0) << ranks.err;
    EXPECT_EQ(ranks.out, alone.out);
    const auto tensors = ReadTensors(temp_.File("ranks"));
    ASSERT_GT(tensors.size(), 10U);
    for (const auto& [name, tensor] : ReadTensors(temp_.File("alone"))) {
      ASSERT_EQ(tensors.count(name), 1U) << name;
      EXPECT_EQ(tensors.at(name).data, tensor.data) << name;
    }
    // One process runs again what several have recorded, and the other way round.
    const Result again = NgRun({"--replay", temp_.File("ranks.record"), "--fabric.name=local",
                                "--fabric.split=heads", "--fabric.groups=1"});
    EXPECT_THAT(again.err, HasSubstr("replay equal"));
    const Result by_layers =
        OnRanks(2, {"--replay", temp_.File("alone.record"), "--fabric.split=layers"});
    EXPECT_EQ(by_layers.exit_code, 0) << by_layers.err;
    EXPECT_THAT(by_layers.err, HasSubstr("replay equal"));
  }
}

TEST_F(MpiRun, WritesInPiecesWhatOneProcessWrites) {
  std::string ids;
  for (int i = 0; i < 100; ++i) absl::StrAppend(&ids, i % 31, " ");
  TinyNiels model;
  model.width = 96;
  model.max_positions = 200;
  model.WriteTo(temp_.path());
  const auto run = [&](const std::string& as) {
    return Greedy(temp_.path(), ids, 5) + Arguments{"--run.threads=1", "--model.weights=int8",
                                                    "--save-tensors=logits", "--save",
                                                    temp_.File(as)};
  };
  const Result alone = NgRun(run("alone"));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  for (const char* pieces : {"0", "3"}) {
    const Result ranks =
        OnRanks(2, run("ranks") + Arguments{absl::StrCat("--fabric.pieces=", pieces)});
    ASSERT_EQ(ranks.exit_code, 0) << ranks.err;
    EXPECT_EQ(ranks.out, alone.out);
    EXPECT_EQ(ReadFile(temp_.File("ranks")), ReadFile(temp_.File("alone")));
  }
}

// NG_RANK_PROMPTS=500 is a long form.
TEST_F(MpiRun, DealsPromptsToGroupsAndWritesWhatOneProcessWrites) {
  const char* const asked = std::getenv("NG_RANK_PROMPTS");
  std::string prompts;
  for (int i = 0; i < (asked == nullptr ? 40 : std::atoi(asked)); ++i) {
    absl::StrAppend(&prompts, "{\"prompt_ids\": [", 1 + i % 7, ", 3, ", i % 50,
                    "], \"max_new_tokens\": ", 1 + i * 7 % 30, "}\n");
  }
  const Arguments run = Arguments{absl::StrCat("--model.path=", kGoldens, "llama/tied_gqa"),
                                  "--run.threads=1",
                                  "--sampler.chain=temperature,top_k",
                                  "--cache.max_sequences=3",
                                  "--run.stop_ids=",
                                  "--prompts",
                                  temp_.Write("prompts", prompts)};
  const Result alone = NgRun(run + Arguments{"--record", temp_.File("alone.record")});
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  for (const int groups : {2, 4}) {
    const Result dealt =
        OnRanks(4, run + Arguments{absl::StrCat("--fabric.groups=", groups), "--record",
                                   temp_.File("dealt.record"), "--steps", temp_.File("steps")});
    ASSERT_EQ(dealt.exit_code, 0) << dealt.err;
    EXPECT_EQ(dealt.out, alone.out);
    EXPECT_EQ(std::count(dealt.err.begin(), dealt.err.end(), '\n'), 1) << dealt.err;
    int64_t last = 0;
    for (const Json& step : JsonLines(ReadFile(temp_.File("steps")))) {
      EXPECT_GE(step["index"], last);
      last = step["index"];
    }
  }
  // The hashes of all logits are those of one process.
  const Result replayed =
      NgRun({"--replay", temp_.File("dealt.record"), "--fabric.name=local", "--fabric.groups=1"});
  EXPECT_EQ(replayed.exit_code, 0) << replayed.err;
  EXPECT_THAT(replayed.err, HasSubstr("replay equal"));
  const Result again = OnRanks(2, {"--replay", temp_.File("alone.record"), "--fabric.groups=2"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("replay equal"));
}

TEST_F(MpiRun, SaysOnceWhatItDoesNotDo) {
  ExpectError(OnRanks(2, Demo() + Arguments{"--prompt", "x", "--view", temp_.File("view"),
                                            "--fabric.groups=2"}),
              2, {"--view looks into the steps of one group", "= 2"});
  ExpectError(OnRanks(2, Demo() + Arguments{"--prompt", "x", "--view", temp_.File("view.html"),
                                            "--fabric.split=layers"}),
              2, {"--view needs all layers", "= layers has some of them on each rank"});
  ExpectError(OnRanks(3, Demo() + Arguments{"--prompt", "x", "--fabric.groups=2"}), 2,
              {"3 ranks do not make 2 groups of the same size"});
  ExpectError(OnRanks(2, Demo() + Arguments{"--chat"}), 2, {"--chat needs one process", "has 2"});
  ExpectError(OnRanks(2, Demo() + Arguments{"--prompt", "x", "--save", "/nowhere/x"}), 7,
              {"/nowhere"});
  // A shell for each rank, because the mpirun of Debian 13 ends by a signal where it is given two
  // programs.
  ExpectError(
      Mpirun(Arguments{"-n", "2", "sh", "-c", "exec \"$@\" --sampler.seed=$OMPI_COMM_WORLD_RANK",
                       "sh", kNgRun, "--fabric.name=mpi"} +
             Demo() + Arguments{"--dry-run"}),
      1, {"rank 1 (", "another config than rank 0"});
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The peak that the kernel reports of the rank that takes most, beyond that of a run of one token:
// what MPI itself holds depends on the machine. tests/peers/memory.py shows more.
TEST_F(MpiRun, TakesTheMemoryThatThePlanSays) {
  // Few weights: what this process has held counts as the peak of those that it starts.
  TinyNiels model;
  model.width = 256;
  model.ffn_width = 512;
  model.n_layers = 6;
  model.n_heads = 4;
  model.vocab_size = 1000;
  model.max_positions = 6000;
  model.WriteTo(temp_.path());
  struct Bytes {
    double planned;
    double peak;
  };
  const auto bytes_of = [&](const char* split, int n_tokens) {
    const Arguments run = {"--model.path=" + temp_.path(), "--run.prefill_chunk=300",
                           "--run.threads=1", absl::StrCat("--fabric.split=", split)};
    Command plan;
    plan.program = "ng-plan";
    plan.arguments = run + Arguments{"--fabric.name=mpi", "--ranks=2", "--decode-tokens=8",
                                     "--output=jsonl", absl::StrCat("--prompt-tokens=", n_tokens)};
    const Json planned = JsonLines(test::Run(plan).out).at(0)["bytes"];
    std::string ids;
    for (int i = 0; i < n_tokens; ++i) absl::StrAppend(&ids, i % 1000, " ");
    const Result result = OnRanks(2, run + Arguments{"--prompt-ids", ids, "--run.max_new_tokens=8",
                                                     "--run.stop_ids=", "--sampler.chain=greedy"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Bytes{planned["needed"].get<double>(), static_cast<double>(result.peak_bytes)};
  };
  for (const char* split : {"heads", "layers"}) {
    // Two whole chunks: MPI keeps memory of its own for messages as long as these.
    const Bytes few = bytes_of(split, 600);
    const Bytes many = bytes_of(split, 5900);
    EXPECT_NEAR((many.planned - few.planned) / (many.peak - few.peak), 1.0, 0.03) << split;
  }
}
#endif

TEST_F(MpiRun, FabricConforms) {
  const Result result = Mpirun({"-n", "3", NG_BINARY_DIR "/bin/plugins_fabric_test",
                                "--gtest_filter=MpiRanks.Conform", "--gtest_color=no"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("[       OK ] MpiRanks.Conform"));
}

TEST_F(MpiRun, NamesTheRankThatStandsStill) {
  for (const char* which : {"StandsStill", "StopsWhileItWaits"}) {
    const Result result =
        Mpirun({"-n", "3", NG_BINARY_DIR "/bin/plugins_fabric_test",
                absl::StrCat("--gtest_filter=MpiRanks.*", which), "--gtest_color=no"});
    EXPECT_EQ(result.exit_code, 42) << result.out << result.err;
  }
}

// Starts a long run on three ranks that writes a file into a folder. Once the file grows, which has
// no name before it is whole, sends a signal to one of them, or to mpirun itself (rank -1), and
// waits until mpirun has ended. Prints who is left of the ranks after that.
constexpr char kLose[] =
    R"sh(signal=$1 rank=$2 delay=$3 folder=$4; shift 4
"$@" >/dev/null & run=$!
grows() {
  for fd in $(printf '/proc/%s/fd/* ' $(cat /proc/$run/task/$run/children)); do
    case "$(readlink $fd)" in $folder/*) [ $(stat -Lc %s $fd) -gt 0 ] && return 0;; esac
  done
  return 1
}
while ! grows && kill -0 $run 2>/dev/null; do sleep 0.05; done
set -- $(cat /proc/$run/task/$run/children)
sleep $delay
target=$run
[ $rank -ge 0 ] && { i=0; for pid in "$@"; do [ $i -eq $rank ] && target=$pid; i=$((i + 1)); done; }
kill -$signal $target
wait $run; code=$?
sleep 0.1
for pid in "$@"; do [ -e /proc/$pid ] && ! grep -q 'State:.*Z' /proc/$pid/status && echo "left $pid"; done
exit $code)sh";

// NG_RANK_LOSSES=200 NG_RANK_SEED=1 is a long form.
TEST_F(MpiRun, EndsEverywhereWhereOneIsLost) {
  const auto number = [](const char* name, int otherwise) {
    const char* const text = std::getenv(name);
    return text == nullptr ? otherwise : std::atoi(text);
  };
  TinyNiels model;
  model.max_positions = int64_t{1} << 16;
  model.n_layers = 3;  // one for each rank
  model.WriteTo(temp_.path());
  std::mt19937 random(static_cast<unsigned>(number("NG_RANK_SEED", 1)));
  const int n_losses = number("NG_RANK_LOSSES", 6);
  const Arguments ways[] = {{}, {"--fabric.split=layers"}, {"--fabric.groups=3"}};
  constexpr const char* kSignals[] = {"KILL", "STOP", "TERM", "INT", "KILL"};
  for (int loss = 0; loss < n_losses; ++loss) {
    const std::string signal = kSignals[loss % 5];
    const bool fault = signal == "KILL" || signal == "STOP";
    const int rank = static_cast<int>(random() % (fault ? 3 : 4)) - (fault ? 0 : 1);
    // An mpirun that is told to end while it is still starting them takes a second to do so. In
    // that time it reads nothing, and rank 0 waits until it can write.
    const std::string delay = absl::StrCat("0.", random() % 10 + 10);
    const Arguments& way = ways[loss % 3];
    SCOPED_TRACE(absl::StrCat(signal, " to rank ", rank, " after ", delay, " s ",
                              way.empty() ? "" : way[0]));
    TempDir outputs;
    const auto begin = std::chrono::steady_clock::now();
    const Result result = WithoutMpirunsWords(
        Shell(kLose, Arguments{signal, absl::StrCat(rank), delay, outputs.path()} + kMpirun +
                         Arguments{"-n", "3", kNgRun, "--fabric.name=mpi", "--fabric.deadline=0.5",
                                   "--run.threads=1"} +
                         way + Greedy(temp_.path(), "1 2 3", 60000) +
                         Arguments{"--steps", outputs.File("steps")}));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(taken.count(), 8.0);
    EXPECT_THAT(result.out, Not(HasSubstr("left ")));
    EXPECT_NE(result.exit_code, 0);
    // A file is there as a whole or not at all, and nothing is beside it.
    EXPECT_THAT(FilesIn(outputs.path()),
                AnyOf(::testing::IsEmpty(), ::testing::ElementsAre("steps")));
    if (!FilesIn(outputs.path()).empty()) JsonLines(ReadFile(outputs.File("steps")));
    if (signal == "STOP") {
      EXPECT_EQ(result.exit_code, 1);
    }
    if (!fault) {
      EXPECT_THAT(result.err, Not(HasSubstr("error"))) << result.err;
      continue;
    }
    const auto n_lines = std::count(result.err.begin(), result.err.end(), '\n');
    // What mpirun wakes up before it ends it may find that the others have gone.
    EXPECT_LE(n_lines, signal == "STOP" ? 2 : 1) << result.err;
    // mpirun may end the others before they can say so, and itself before it has passed on what
    // they said.
    if (n_lines == 0) continue;
    EXPECT_THAT(result.err, StartsWith("ng-run: error: rank "));
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat("rank ", rank, " (")));
    EXPECT_THAT(result.err, HasSubstr(", step "));
  }
}

}  // namespace
}  // namespace ng::test
