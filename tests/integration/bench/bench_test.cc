// ng-bench as a user runs it: the demo model, tiny counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;

Result NgBench(const Arguments& arguments) {
  Command command;
  command.program = "ng-bench";
  command.arguments = arguments;
  return Run(command);
}

Arguments Counts(int prompt_tokens, int decode_tokens) {
  return Demo() + Arguments{"--prompt-tokens", std::to_string(prompt_tokens),
                            "--decode-tokens", std::to_string(decode_tokens),
                            "--repeat",        "2"};
}

Arguments Tiny() { return Counts(24, 4) + Arguments{"--output", "jsonl"}; }

std::vector<Json> Lines(const Arguments& arguments) {
  const Result result = NgBench(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  return JsonLines(result.out);
}

void ExpectBenchError(const Arguments& arguments, int exit_code,
                      const std::vector<std::string>& parts) {
  const Result result = NgBench(arguments);
  EXPECT_THAT(result.out, IsEmpty());
  ExpectErrorOf("ng-bench", result, exit_code, parts);
}

TEST(NgBench, SaysWhatItMeasuredAndOnWhat) {
  const std::vector<Json> lines = Lines(Tiny() + Arguments{"--run.threads=1"});
  ASSERT_EQ(lines.size(), 1U);
  const Json& line = lines[0];
  EXPECT_THAT(Keys(line),
              IsSupersetOf({"isa", "threads", "weights", "codec", "depth", "batch", "prompt_tokens",
                            "decode_tokens", "repeat", "prefill_tok_s", "decode_tok_s",
                            "bytes_per_token", "read_gb_s", "peak_gop_s", "share_of_bandwidth",
                            "share_of_peak", "regions_per_step", "serial_share"}));
  EXPECT_EQ(line["threads"], 1);
  EXPECT_EQ(line["weights"], "bf16");
  EXPECT_EQ(line["codec"], "f32");
  EXPECT_EQ(line["depth"], 0);
  EXPECT_EQ(line["batch"], 1);
  EXPECT_EQ(line["prompt_tokens"], 24);
  EXPECT_EQ(line["decode_tokens"], 4);
  EXPECT_EQ(line["repeat"], 2);
}

TEST(NgBench, SharesFollowFromTheFiguresBesideThem) {
  const std::vector<Json> lines = Lines(Tiny() + Arguments{"--depth", "100"});
  ASSERT_EQ(lines.size(), 1U);
  const Json& line = lines[0];
  const double bytes = line["bytes_per_token"];
  // 100 tokens at depth, and those of the steps: 101 to 104, on average 102.5.
  EXPECT_NEAR(
      bytes,
      line["weight_bytes"].get<double>() + 102.5 * line["cache_bytes_per_token"].get<double>(),
      1.0);
  const double share = line["share_of_bandwidth"];
  EXPECT_NEAR(share,
              line["decode_tok_s"].get<double>() * bytes / (line["read_gb_s"].get<double>() * 1e9),
              0.01 * share);
  EXPECT_GT(share, 0.0);
  EXPECT_GT(line["share_of_peak"], 0.0);
  EXPECT_LT(line["share_of_peak"], 1.5);
}

TEST(NgBench, CountsTheDemosWeightsAndCache) {
  const Json line = Lines(Tiny() + Arguments{"--model.weights=f32", "--cache.codec_k=bf16"}).at(0);
  const Json shape = Json::parse(ReadFile(NG_SOURCE_DIR "/configs/demo/config.json"));
  const int64_t width = shape["C"];
  const int64_t ffn = shape["d_ff"];
  const int64_t layers = shape["L"];
  const int64_t weights =
      layers * (4 * width * width + 3 * width * ffn) + shape["V"].get<int64_t>() * width;
  EXPECT_EQ(line["weight_bytes"], 4 * weights);
  EXPECT_EQ(line["cache_bytes_per_token"], layers * width * (2 + 4));
  EXPECT_EQ(line["codec"], "bf16/f32");
}

TEST(NgBench, CountsTheRegionsOfADecodeStepAndWhatLiesBetweenThem) {
  const int64_t layers = Json::parse(ReadFile(NG_SOURCE_DIR "/configs/demo/config.json"))["L"];
  for (const Json& line : Lines(Tiny() + Arguments{"--threads=1,2"})) {
    const double regions = line["regions_per_step"];
    EXPECT_EQ(regions, std::round(regions));
    EXPECT_GT(regions, 2 * layers);  // attention and feed-forward
    EXPECT_LT(regions, 20 * layers);
    EXPECT_GT(line["serial_share"], 0.0);
    EXPECT_LT(line["serial_share"], 1.0);
  }
}

TEST(NgBench, SweepsThreadsBatchesAndDepthsALineEach) {
  const std::vector<Json> lines =
      Lines(Tiny() + Arguments{"--threads=1,2", "--batch=1,2", "--depth=0,40"});
  std::vector<std::string> swept;
  for (const Json& line : lines) {
    swept.push_back(line["threads"].dump() + " " + line["batch"].dump() + " " +
                    line["depth"].dump());
  }
  EXPECT_THAT(swept, ElementsAre("1 1 0", "1 1 40", "1 2 0", "1 2 40", "2 1 0", "2 1 40", "2 2 0",
                                 "2 2 40"));
}

TEST(NgBench, LeavesOutWhatIsNotAskedFor) {
  const Json prefill = Lines(Counts(24, 0) + Arguments{"--output=jsonl"}).at(0);
  EXPECT_TRUE(prefill["decode_tok_s"].is_null());
  EXPECT_TRUE(prefill["share_of_bandwidth"].is_null());
  EXPECT_TRUE(prefill["regions_per_step"].is_null());
  EXPECT_TRUE(prefill["serial_share"].is_null());
  EXPECT_GT(prefill["prefill_tok_s"], 0.0);
  const Json decode = Lines(Counts(0, 4) + Arguments{"--output=jsonl"}).at(0);
  EXPECT_TRUE(decode["prefill_tok_s"].is_null());
  EXPECT_TRUE(decode["share_of_peak"].is_null());
  EXPECT_GT(decode["decode_tok_s"], 0.0);
}

TEST(NgBench, MeasuresInChunksAndOnEveryLevel) {
  for (const char* isa : {"scalar", "auto"}) {
    const Json line =
        Lines(Tiny() + Arguments{std::string("--run.isa=") + isa, "--run.prefill_chunk=7"}).at(0);
    EXPECT_GT(line["prefill_tok_s"], 0.0);
    EXPECT_GT(line["peak_gop_s"], 0.0);
  }
}

TEST(NgBench, MeasuresAShapeWithoutAModelFile) {
  const TempDir dir;
  const std::string spec = dir.path() + "/shape.json";
  std::ofstream(spec)
      << TinyNiels{.vocab_size = 64, .width = 32, .n_layers = 3, .n_heads = 4, .ffn_width = 48}
             .ConfigJson();
  const Json line =
      Lines(Tiny() + Arguments{"--random-weights", spec, "--model.weights=f32"}).at(0);
  EXPECT_EQ(line["model"], spec);
  EXPECT_EQ(line["weight_bytes"], 4 * (3 * (4 * 32 * 32 + 3 * 32 * 48) + 64 * 32));
  ExpectBenchError(Tiny() + Arguments{"--random-weights", spec, "--model.path=" + dir.path()}, 2,
                   {"model.path", "must be empty"});
}

TEST(NgBench, PrintsATable) {
  const Result result = NgBench(Counts(24, 4));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("bf16 weights, f32 cache, "));
  EXPECT_THAT(result.out, HasSubstr("\nthreads batch depth prompt  prefill/s of peak  decode/s"));
  EXPECT_THAT(result.out, EndsWith(" %\n"));
}

// `script` gives it a terminal for stderr.
TEST(NgBench, ShowsItsRoundsOnATerminal) {
  const TempDir dir;
  const Result result = Shell(
      "script -qec \"$(dirname \"$NG\")/ng-bench --config $1 --prompt-tokens 8 --decode-tokens 2 "
      "--repeat 2 > $2\" /dev/null",
      {Demo()[1], dir.File("out")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(ReadFile(dir.File("out")), HasSubstr("prefill/s"));
  for (const char* round :
       {"warm-up: prefill ", "round 1 of 2: prefill ", "round 2 of 2: prefill "}) {
    EXPECT_THAT(result.out, HasSubstr(round));
  }
  EXPECT_THAT(result.out, HasSubstr(" tok/s, decode "));
}

TEST(NgBench, HelpAndVersionNeedNoConfig) {
  const Result help = NgBench({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("--decode-tokens"));
  const Result version = NgBench({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, StartsWith("ng-bench "));
}

TEST(NgBenchError, NamesTheOptionAndWhatIsAllowed) {
  ExpectBenchError({"--dept", "1"}, 2, {"--dept", "did you mean --depth?"});
  ExpectBenchError(Demo() + Arguments{"--repeat=0"}, 2, {"--repeat: '0'", "[1, "});
  ExpectBenchError(Demo() + Arguments{"--batch=1,,2"}, 2, {"--batch: ''", "[1, "});
  ExpectBenchError(Demo() + Arguments{"--depth=-1"}, 2, {"--depth: '-1'", "[0, "});
  ExpectBenchError(Demo() + Arguments{"--output=csv"}, 2, {"--output=csv", "text or jsonl"});
  ExpectBenchError(Demo() + Arguments{"--prompt-tokens=0", "--decode-tokens=0"}, 2,
                   {"nothing to measure"});
  ExpectBenchError(Demo() + Arguments{"--cache.codek=bf16"}, 2, {"cache.codek", "cache.codec"});
}

TEST(NgBenchError, RefusesWhatTheContextCannotHold) {
  ExpectBenchError(Demo() + Arguments{"--prompt-tokens=257"}, 5, {"prompt 257 > 256 T_max"});
  ExpectBenchError(Demo() + Arguments{"--prompt-tokens=9", "--depth=255", "--decode-tokens=2"}, 5,
                   {"depth 255 + decode 2 = 257 > 256 T_max"});
  EXPECT_EQ(Lines(Tiny() + Arguments{"--depth=252"}).size(), 1U);
}

TEST(NgBench, StopsAtTheFirstInterrupt) {
  Command command;
  command.program = "ng-bench";
  command.arguments = Tiny() + Arguments{"--depth=0,8,16,24,32,40,48,56,64,72,80,88"};
  command.signal = 2;
  command.signal_after = 1;
  const Result result = ::ng::test::Run(command);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_LT(JsonLines(result.out).size(), 12U);
}

}  // namespace
}  // namespace ng::test
