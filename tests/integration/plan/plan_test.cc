// ng-plan as a user runs it: what it says before anything is loaded, and what then is true.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

Result NgPlan(const Arguments& arguments) {
  Command command;
  command.program = "ng-plan";
  command.arguments = arguments;
  return Run(command);
}

// The object of a run that fits, or of any run of a large shape: not every machine has room for it.
Json Plan(const Arguments& arguments, bool must_fit = true) {
  const Result result = NgPlan(arguments + Arguments{"--output=jsonl"});
  if (must_fit) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, IsEmpty());
  } else {
    EXPECT_THAT(result.exit_code, AnyOf(0, 5)) << result.err;
  }
  const std::vector<Json> lines = JsonLines(result.out);
  return lines.size() == 1 ? lines[0] : Json();
}

Arguments Shape(const std::string& name) {
  return {"--random-weights", absl::StrCat(NG_SOURCE_DIR, "/tests/peers/shapes/", name, ".json")};
}

Arguments Tokens(int64_t prompt, int64_t decode) {
  return {absl::StrCat("--prompt-tokens=", prompt), absl::StrCat("--decode-tokens=", decode)};
}

void ExpectPlanError(const Arguments& arguments, int exit_code,
                     const std::vector<std::string>& parts) {
  const Result result = NgPlan(arguments);
  EXPECT_THAT(result.out, IsEmpty());
  ExpectErrorOf("ng-plan", result, exit_code, parts);
}

// 2 * layers * width * bytes * tokens. A published table states this formula for this shape, but
// its figures (21.47 MB at 128 tokens) are 6.25 times less than it gives: 134.2 MB.
TEST(NgPlanGrowth, FollowsItsFormula) {
  const Json plan = Plan(Shape("7b") + Tokens(16, 0), false);
  int64_t tokens = 128;
  for (const Json& row : plan["growth"]) {
    EXPECT_EQ(row["tokens"], tokens);
    EXPECT_EQ(row["bytes"], 2 * 32 * int64_t{4096} * 4 * tokens);
    tokens *= 2;
  }
  EXPECT_EQ(tokens, 2 * 131072);
  EXPECT_EQ(plan["growth"][0]["bytes"], 134217728);
  const Result text = NgPlan(Shape("7b") + Tokens(16, 0));
  EXPECT_THAT(text.out, HasSubstr("       128           4.194         134.218\n"));
  EXPECT_THAT(text.out, HasSubstr("    131072        4294.967      137438.953\n"));
}

// The table goes on beyond the model's own context.
TEST(NgPlanGrowth, HasTheKnownFigureOfGpt2Small) {
  const Json plan = Plan(Shape("gpt2") + Tokens(1000, 24) + Arguments{"--cache.codec=f16"});
  constexpr int64_t kMiB = int64_t{1} << 20;
  EXPECT_EQ(plan["bytes"]["cache"], 36 * kMiB);
  EXPECT_EQ(plan["growth"][3]["tokens"], 1024);
  EXPECT_EQ(plan["growth"][3]["bytes"], 36 * kMiB);
  EXPECT_EQ(plan["growth"].size(), 11U);
}

// Every step counted one by one.
TEST(NgPlanOperations, AreThoseOfEveryStep) {
  constexpr double kLayers = 32;
  constexpr double kWidth = 4096;
  constexpr double kRow = 2 * kLayers * (4 * kWidth * kWidth + 3 * kWidth * 11008);
  constexpr double kHead = 2 * kWidth * 32000;
  constexpr double kKey = 4 * kWidth * kLayers;
  const auto step = [&](int64_t n_rows, int64_t end) {
    double operations = kRow * static_cast<double>(n_rows) + kHead;
    for (int64_t keys = end - n_rows + 1; keys <= end; ++keys) {
      operations += kKey * static_cast<double>(keys);
    }
    return operations;
  };
  double with = step(1024, 1024);
  double without = with;
  for (int64_t s = 1; s <= 100; ++s) {
    with += step(1, 1024 + s);
    without += step(1024 + s, 1024 + s);
  }
  const Json operations = Plan(Shape("7b") + Tokens(1024, 100), false)["operations"];
  EXPECT_NEAR(operations["with_cache"]["total"].get<double>() / with, 1.0, 1e-12);
  EXPECT_NEAR(operations["without_cache"]["total"].get<double>() / without, 1.0, 1e-12);
  EXPECT_NEAR(operations["ratio"].get<double>(), without / with, 1e-9);
  EXPECT_THAT(operations["formula"].get<std::string>(),
              HasSubstr("2 * n_heads * (head_dim of k + head_dim of v)"));
}

// 8256 rows against 128: (N + 1) / 2.
TEST(NgPlanOperations, OfTheMatricesHaveTheRatioOfTheMeanLength) {
  const Json operations = Plan(Demo() + Tokens(1, 127))["operations"];
  const double with = operations["with_cache"]["matrices"];
  EXPECT_EQ(operations["without_cache"]["matrices"].get<double>() / with, 64.5);
}

TEST(NgPlanOperations, WithoutDecodeAreTheSameWithoutCache) {
  EXPECT_EQ(Plan(Demo() + Tokens(9, 0))["operations"]["ratio"], 1.0);
}

TEST(NgPlan, CountsTheDemosWeightsByPart) {
  const Json plan = Plan(Demo() + Tokens(100, 20) + Arguments{"--model.weights=f32"});
  const Json shape = Json::parse(ReadFile(NG_SOURCE_DIR "/configs/demo/config.json"));
  const int64_t width = shape["C"];
  const int64_t ffn = shape["d_ff"];
  const int64_t layers = shape["L"];
  const Json& weights = plan["bytes"]["weights"];
  EXPECT_EQ(weights["embedding"], 4 * shape["V"].get<int64_t>() * width);
  EXPECT_EQ(weights["head"], 0);  // tied
  EXPECT_EQ(weights["layers"], 4 * layers * (4 * width * width + 3 * width * ffn));
  EXPECT_EQ(weights["total"], weights["embedding"].get<int64_t>() +
                                  weights["layers"].get<int64_t>() +
                                  weights["vectors"].get<int64_t>());
  const Json& bytes = plan["bytes"];
  EXPECT_EQ(bytes["needed"],
            weights["total"].get<int64_t>() +
                std::max(bytes["loading"].get<int64_t>(),
                         bytes["cache"].get<int64_t>() + bytes["activations"].get<int64_t>()));
  EXPECT_THAT(Keys(plan),
              ElementsAre("model", "weights", "cache", "codec_k", "codec_v", "attention", "isa",
                          "threads", "prompt_tokens", "decode_tokens", "max_tokens",
                          "max_sequences", "bytes", "operations", "growth"));
}

// What the run itself then reserves, with every store and codec that there is.
TEST(NgPlan, SaysOfEveryStoreAndCodecWhatTheRunReserves) {
  int n_planned = 0;
  for (const std::string& file : FilesIn(NG_BINARY_DIR "/lib/ng/plugins")) {
    if (!absl::StartsWith(file, "ng_cache_")) continue;
    const absl::string_view store = absl::StripSuffix(absl::StripPrefix(file, "ng_cache_"), ".so");
    for (const char* codec : {"f32", "bf16", "f16", "int8", "int4"}) {
      SCOPED_TRACE(absl::StrCat(store, " ", codec));
      const Arguments arguments =
          Demo() + Arguments{absl::StrCat("--cache.name=", store),
                             absl::StrCat("--cache.codec=", codec), "--cache.max_tokens=100",
                             "--cache.max_sequences=3"};
      const Result result = NgPlan(arguments + Tokens(60, 40) + Arguments{"--output=jsonl"});
      if (result.exit_code == 4) {
        EXPECT_THAT(result.err, HasSubstr("can run: "));
        continue;
      }
      ASSERT_EQ(result.exit_code, 0) << result.err;
      ++n_planned;
      const Json plan = JsonLines(result.out).at(0);
      const int64_t cache = plan["bytes"]["cache"];
      EXPECT_EQ(plan["codec_k"], codec == std::string("int4") ? plan["codec_k"] : Json(codec));
      EXPECT_GE(cache, 300 * plan["bytes"]["cache_per_token"].get<int64_t>());
      EXPECT_THAT(NgRun(arguments + Arguments{"--dry-run"}).out,
                  HasSubstr(absl::StrCat(" bytes, cache ", cache, ", ")));
    }
  }
  EXPECT_GE(n_planned, 3);
}

TEST(NgPlan, ChunkedPrefillNeedsLessForActivations) {
  const auto activations = [](const Arguments& more) {
    return Plan(Shape("135m") + Tokens(4000, 16) + more)["bytes"]["activations"].get<int64_t>();
  };
  const int64_t whole = activations({});
  EXPECT_LT(activations({"--run.prefill_chunk=256"}), whole / 4);
  // Without a cache all tokens are fed at once, the new ones too.
  EXPECT_GT(activations({"--run.use_cache=false"}), whole);
}

TEST(NgPlan, ReadsNoWeights) {
  const TempDir dir;
  const TinyNiels model;
  model.WriteTo(dir.path(), [&](std::vector<NamedTensor>& tensors) {
    for (NamedTensor& tensor : tensors) tensor.data.assign(tensor.data.size(), NAN);
  });
  const Arguments arguments = {"--model.path=" + dir.path()};
  EXPECT_EQ(NgPlan(arguments + Tokens(20, 4)).exit_code, 0);
  ExpectError(NgRun(Greedy(dir.path(), "1 2 3", 4)), 3, {"NaN"});
}

TEST(NgPlan, PrintsItsTablesThenRefusesWhatWillNotFit) {
  const Result result =
      NgPlan(Shape("7b") + Tokens(8, 8) +
             Arguments{"--cache.max_tokens=131072", "--cache.max_sequences=100000"});
  EXPECT_EQ(result.exit_code, 5);
  // The answer comes first, and what would make it fit.
  EXPECT_THAT(
      result.out,
      MatchesRegex("does not fit: [0-9]+ GB of [0-9.]+ [MG]B\n(it|nothing).* fit.*\n\nmodel .*"));
  EXPECT_THAT(result.out, HasSubstr("memory for 100000 x 131072 tokens, bytes\n"));
  EXPECT_THAT(result.out, HasSubstr("cache of one sequence by its length, f32\n"));
  EXPECT_THAT(result.err, StartsWith("ng-plan: error: the run needs "));
  EXPECT_THAT(result.err, HasSubstr(" are available"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
}

TEST(NgPlan, AnswersFirstThatARunFits) {
  const Result result = NgPlan(Demo() + Tokens(200, 50));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, MatchesRegex("fits: [0-9]+ MB of [0-9.]+ [MG]B\n\nmodel .*"));
}

// What the formulas of apps/plan/README.md give for a shape whose sizes are known.
TEST(NgPlanRanks, SimulatesMachinesByTheFormulas) {
  const Arguments any_link =
      Shape("135m") + Tokens(100, 28) +
      Arguments{"--model.weights=f32", "--ranks=4", "--link-mbit=800", "--memory-mbyte=1000"};
  const Arguments run = any_link + Arguments{"--link-us=100"};
  const Json heads = Plan(run)["ranks"];
  const Json layers = Plan(run + Arguments{"--fabric.split=layers"})["ranks"];
  EXPECT_EQ(heads["split"], "heads");
  EXPECT_EQ(layers["split"], "layers");
  // 576 wide, a vocabulary of 49152, 4 ranks.
  EXPECT_EQ(layers["row"], 4 * 576);
  EXPECT_EQ(layers["logits"], 4 * 49152);
  EXPECT_EQ(layers["sent_per_token"], 3 * (4 * 576 + 4 * 49152 + 24 * 4 + 4));
  const double row = 100e-6 + (4 * 576 + 4) / 1e8;
  const double logits = 100e-6 + 4 * 49152 / 1e8;
  const double meeting = 100e-6 + 12 * 4 / 1e8;
  EXPECT_NEAR(layers["gather_s"].get<double>(), 3 * row + 2 * logits + 2 * meeting, 1e-9);
  std::vector<int> counts;
  for (const Json& machines : heads["machines"]) {
    counts.push_back(machines["machines"]);
    if (machines["machines"] == 1) {
      EXPECT_EQ(machines["heads"], machines["layers"]);
      EXPECT_EQ(machines["heads"]["links_s"], 0.0);
    }
    // 30 layers are not 32 parts.
    EXPECT_EQ(machines["layers"].is_null(), machines["machines"] > 30);
  }
  EXPECT_THAT(counts, ElementsAre(1, 2, 4, 8, 16, 32, 64));
  const Json& four = heads["machines"][2];
  EXPECT_EQ(four["heads"]["links_s"], heads["gather_s"]);
  EXPECT_EQ(four["layers"]["links_s"], layers["gather_s"]);
  EXPECT_EQ(four["layers"]["compute_s"], heads["machines"][0]["heads"]["compute_s"]);
  EXPECT_LT(four["layers"]["needed"], heads["machines"][0]["layers"]["needed"]);
  const std::string table = NgPlan(run).out;
  EXPECT_THAT(table, HasSubstr("on 4, fabric.split = heads is the faster one"));
  EXPECT_THAT(table, HasSubstr("make no token faster"));
  // Of slow links one machine is the fastest.
  const Json slow = Plan(any_link + Arguments{"--link-us=100000"})["ranks"];
  EXPECT_EQ(slow["fastest"]["machines"], 1);
}

TEST(NgPlan, AnswersHelpAndVersion) {
  EXPECT_THAT(NgPlan({"--help"}).out, HasSubstr("--prompt-tokens"));
  EXPECT_THAT(NgPlan({"--version"}).out, StartsWith("ng-plan "));
}

TEST(NgPlanError, IsOneLineAndNothingIsPrinted) {
  ExpectPlanError({}, 2, {"model.path is not set"});
  ExpectPlanError(Demo() + Arguments{"--prompt-tokens=0"}, 2, {"--prompt-tokens: '0'", "[1, "});
  ExpectPlanError(Demo() + Arguments{"--decode-tokens=x"}, 2, {"--decode-tokens: 'x'", "[0, "});
  ExpectPlanError(Demo() + Arguments{"--output=csv"}, 2, {"--output=csv", "text or jsonl"});
  ExpectPlanError(Demo() + Arguments{"--promt-tokens=5"}, 2, {"--promt-tokens", "--prompt-tokens"});
  ExpectPlanError(Demo() + Arguments{"--cache.name=pagd"}, 4, {"no cache plugin 'pagd'"});
  ExpectPlanError({"--model.path=/nowhere"}, 3, {"/nowhere"});
  ExpectPlanError(Demo() + Tokens(250, 7), 5, {"257 exceeds T_max 256"});
  ExpectPlanError(Demo() + Tokens(90, 20) + Arguments{"--cache.max_tokens=100"}, 5,
                  {"prompt 90 + decode 20 = 110 > 100 cache tokens"});
  EXPECT_EQ(NgPlan(Demo() + Tokens(250, 6)).exit_code, 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The peak that the kernel reports of a run; tests/peers/memory.py shows more of them, within 1 %.
TEST(NgPlan, PredictsThePeakOfARun) {
  const TempDir dir;
  TinyNiels model;
  model.width = 384;
  model.ffn_width = 1024;
  model.n_layers = 8;
  model.n_heads = 6;
  model.vocab_size = 1000;
  model.max_positions = 3000;
  model.WriteTo(dir.path());
  const Arguments settings = {"--model.path=" + dir.path(), "--run.prefill_chunk=1000"};
  const Json bytes = Plan(settings + Tokens(2900, 8))["bytes"];
  std::string ids;
  for (int i = 0; i < 2900; ++i) absl::StrAppend(&ids, i % 1000, " ");
  const Result result =
      NgRun(settings + Arguments{"--prompt-ids", ids, "--run.max_new_tokens=8", "--run.stop_ids="});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const double predicted = bytes["program"].get<double>() + bytes["needed"].get<double>();
  const double actual = static_cast<double>(result.peak_bytes);
  EXPECT_NEAR(predicted / actual, 1.0, 0.03);
}
#endif

}  // namespace
}  // namespace ng::test
