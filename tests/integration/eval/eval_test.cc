// ng-eval as a user runs it: figures held against arithmetic of the test's own, on the logits of
// the original implementation or of ng-run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using Ids = std::vector<int32_t>;

Result NgEval(const Arguments& arguments) {
  Command command;
  command.program = "ng-eval";
  command.arguments = arguments;
  return Run(command);
}

std::vector<Json> Lines(const Arguments& arguments) {
  const Result result = NgEval(arguments + Arguments{"--output=jsonl"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  return JsonLines(result.out);
}

// The one object of a run.
Json Eval(const Arguments& arguments) {
  const std::vector<Json> lines = Lines(arguments);
  EXPECT_EQ(lines.size(), 1U);
  return lines.size() == 1 ? lines[0] : Json();
}

void ExpectEvalError(const Arguments& arguments, int exit_code,
                     const std::vector<std::string>& parts) {
  const Result result = NgEval(arguments);
  EXPECT_THAT(result.out, IsEmpty());
  ExpectErrorOf("ng-eval", result, exit_code, parts);
}

std::string LineOf(const Ids& ids) { return absl::StrCat(absl::StrJoin(ids, " "), "\n"); }

// Ids of the demo's vocabulary, no two alike for long.
Ids SomeIds(int n) {
  Ids ids;
  for (int i = 0; i < n; ++i) ids.push_back((i * i * 7 + 31 * i + 300) % 1024);
  return ids;
}

// log of the softmax of a row. [vocab_size]
std::vector<double> LogSoftmax(std::span<const float> row) {
  const double max = *std::max_element(row.begin(), row.end());
  double total = 0.0;
  for (const float logit : row) total += std::exp(logit - max);
  std::vector<double> out;
  for (const float logit : row) out.push_back(logit - max - std::log(total));
  return out;
}

// What ng-run --save says of a prompt of the demo. [n, vocab_size]
Tensor DemoLogits(const Ids& ids, const Arguments& more) {
  const TempDir dir;
  const Result result = NgRun(Demo() +
                              Arguments{"--prompt-ids", LineOf(ids), "--run.max_new_tokens=0",
                                        "--save", dir.File("logits"), "--save-tensors=logits"} +
                              more);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return ReadTensors(dir.File("logits")).at("logits.0");
}

std::span<const float> Row(const Tensor& tensor, size_t row) {
  const auto width = static_cast<size_t>(tensor.shape[1]);
  return std::span(tensor.data).subspan(row * width, width);
}

// The perplexity of what transformers says of a prompt and of its own greedy tokens after it.
TEST(NgEval, GivesThePerplexityOfTheGoldenLogits) {
  const std::string dir = NG_TEST_DATA "/golden/llama/untied";
  const Json golden = Json::parse(ReadFile(dir + "/case.json"));
  const std::map<std::string, Tensor> tensors = ReadTensors(dir + "/expected.safetensors");
  const TempDir temp;
  std::string lines;
  double nll = 0.0;
  int64_t n_scored = 0;
  for (size_t i = 0; i < golden["greedy_ids"].size(); ++i) {
    const Ids ids = golden["greedy_ids"][i];
    const size_t prompt_len = golden["prompts"][i].size();
    lines += LineOf(ids);
    for (size_t pos = 1; pos < ids.size(); ++pos, ++n_scored) {
      const bool prompt = pos < prompt_len;
      const Tensor& tensor = tensors.at(absl::StrCat(prompt ? "logits." : "decode_logits.", i));
      const std::span<const float> row = Row(tensor, prompt ? pos - 1 : pos - prompt_len);
      nll -= LogSoftmax(row)[static_cast<size_t>(ids[pos])];
    }
  }
  const Json result = Eval({"--model.path=" + dir, "--ids-file", temp.Write("ids", lines)});
  EXPECT_EQ(result["scored_tokens"], n_scored);
  EXPECT_EQ(result["texts"], golden["greedy_ids"].size());
  const double expected = std::exp(nll / static_cast<double>(n_scored));
  EXPECT_NEAR(result["perplexity"].get<double>() / expected, 1.0, 1e-6);
}

// Windows, and the quantised cache of the other config, by ng-run's logits of each window.
TEST(NgEval, GivesPerplexityAndKlOfTheLogitsOfItsWindows) {
  const Ids ids = SomeIds(50);
  double nll = 0.0;
  double nll_against = 0.0;
  double kl_sum = 0.0;
  double n_equal = 0.0;
  std::vector<double> kls;
  for (size_t first = 0; first + 1 < ids.size(); first += 20) {
    const size_t end = std::min(first + 20, ids.size() - 1);
    const Ids window(ids.begin() + static_cast<int64_t>(first),
                     ids.begin() + static_cast<int64_t>(end));
    const Tensor reference = DemoLogits(window, {});
    const Tensor candidate = DemoLogits(window, {"--cache.codec=int4"});
    for (size_t i = 0; i < window.size(); ++i) {
      const std::vector<double> p = LogSoftmax(Row(reference, i));
      const std::vector<double> q = LogSoftmax(Row(candidate, i));
      const auto next = static_cast<size_t>(ids[first + i + 1]);
      nll -= p[next];
      nll_against -= q[next];
      double kl = 0.0;
      for (size_t id = 0; id < p.size(); ++id) kl += std::exp(p[id]) * (p[id] - q[id]);
      kl_sum += kl;
      kls.push_back(kl);
      n_equal += static_cast<double>(std::max_element(p.begin(), p.end()) - p.begin() ==
                                     std::max_element(q.begin(), q.end()) - q.begin());
    }
  }
  ASSERT_EQ(kls.size(), 49U);
  const TempDir temp;
  const Json result = Eval(Demo() + Arguments{"--ids-file", temp.Write("ids", LineOf(ids)),
                                              "--window=20", "--against", "cache.codec=int4"});
  EXPECT_EQ(result["windows"], 3);
  EXPECT_EQ(result["window"], 20);
  EXPECT_EQ(result["scored_tokens"], 49);
  EXPECT_NEAR(result["perplexity"].get<double>(), std::exp(nll / 49), 1e-9);
  const Json& against = result["against"];
  EXPECT_EQ(against["codec_k"], "int8");
  EXPECT_EQ(against["codec_v"], "int4");
  EXPECT_NEAR(against["perplexity"].get<double>(), std::exp(nll_against / 49), 1e-9);
  EXPECT_NEAR(against["perplexity_change_percent"].get<double>(),
              100.0 * (std::exp((nll_against - nll) / 49) - 1.0), 1e-9);
  EXPECT_NEAR(against["kl_mean"].get<double>(), kl_sum / 49, 1e-12);
  // 99 % of 49 is more than 48.
  EXPECT_NEAR(against["kl_p99"].get<double>(), *std::max_element(kls.begin(), kls.end()), 1e-12);
  EXPECT_NEAR(against["equal_argmax"].get<double>(), n_equal / 49, 1e-12);
}

TEST(NgEval, GivesTheSameBitsForEveryChunkThreadAndStore) {
  const TempDir temp;
  const Arguments arguments =
      Demo() + Arguments{"--ids-file", temp.Write("ids", LineOf(SomeIds(300)) + LineOf(SomeIds(9))),
                         "--cache.codec=int8"};
  const Json whole = Eval(arguments + Arguments{"--run.prefill_chunk=0"});
  EXPECT_EQ(whole["windows"], 3);
  EXPECT_EQ(whole["scored_tokens"], 299 + 8);
  for (const Arguments& other : {Arguments{},
                                 {"--run.prefill_chunk=1"},
                                 {"--run.prefill_chunk=7"},
                                 {"--run.threads=1"},
                                 {"--cache.name=paged"}}) {
    EXPECT_EQ(Eval(arguments + other)["perplexity"], whole["perplexity"]) << other.size();
  }
}

TEST(NgEval, FindsNoDifferenceWhereThereIsNone) {
  for (const char* same : {"cache.codec=f32", "run.prefill_chunk=1", "cache.name=paged"}) {
    const Json against =
        Eval(Demo() + Arguments{"--samples=1", "--window=60", "--against", same})["against"];
    EXPECT_EQ(against["kl_mean"], 0.0) << same;
    EXPECT_EQ(against["kl_p99"], 0.0);
    EXPECT_EQ(against["perplexity_change_percent"], 0.0);
    EXPECT_EQ(against["equal_argmax"], 1.0);
  }
}

TEST(NgEval, AgainstMayBeGivenSeveralTimes) {
  const Json result =
      Eval(Demo() + Arguments{"--samples=1", "--against=cache.codec=bf16",
                              "--against=attention.name=reference", "--against=model.weights=f32"});
  EXPECT_EQ(result["codec_k"], "f32");
  EXPECT_EQ(result["weights"], "bf16");
  EXPECT_EQ(result["against"]["codec_k"], "bf16");
  EXPECT_EQ(result["against"]["attention"], "reference");
  EXPECT_EQ(result["against"]["weights"], "f32");
  EXPECT_GT(result["against"]["kl_mean"], 0.0);
}

// What a quantised cache may cost.
TEST(NgEval, QuantisedCachesOfTheDemoStayWithinTheirBounds) {
  const Arguments arguments = Demo() + Arguments{"--samples=4"};
  const Json int8 = Eval(arguments + Arguments{"--against=cache.codec=int8"})["against"];
  EXPECT_LT(std::fabs(int8["perplexity_change_percent"].get<double>()), 0.1);
  EXPECT_GT(int8["kl_mean"], 0.0);
  EXPECT_LT(int8["kl_mean"], 0.001);
  EXPECT_GE(int8["kl_p99"], int8["kl_mean"]);
  const Json int4 = Eval(arguments + Arguments{"--against=cache.codec=int4"})["against"];
  EXPECT_LT(std::fabs(int4["perplexity_change_percent"].get<double>()), 1.0);
  EXPECT_GT(int4["kl_mean"], int8["kl_mean"]);
}

TEST(NgEval, DrawsTextsThatFillTheContextAndAlwaysTheSame) {
  const TempDir temp;
  const std::string saved = temp.File("ids");
  const Arguments samples = Demo() + Arguments{"--samples=3", "--save-ids", saved};
  const Json drawn = Eval(samples);
  EXPECT_EQ(drawn["scored_tokens"], 3 * 255);
  std::set<std::string> texts;
  std::ifstream file(saved);
  for (std::string line; std::getline(file, line);) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ' '), 255);
    texts.insert(line);
  }
  EXPECT_EQ(texts.size(), 3U);
  EXPECT_EQ(Eval(Demo() + Arguments{"--ids-file", saved})["perplexity"], drawn["perplexity"]);
  // However many are drawn at a time; another seed draws others.
  const std::string first = ReadFile(saved);
  Eval(samples + Arguments{"--cache.max_sequences=1"});
  EXPECT_EQ(ReadFile(saved), first);
  Eval(samples + Arguments{"--sampler.seed=2"});
  EXPECT_NE(ReadFile(saved), first);
}

TEST(NgEval, ScoresEveryTokenOfATextButTheFirst) {
  const TempDir temp;
  const std::string text = temp.Write("text", "Who art thou?");
  const Json result = Eval(Demo() + Arguments{"--text-file", text});
  EXPECT_EQ(result["scored_tokens"], 4);  // apps/tokenize/README.md: 1023 655 551 315 283
  const std::string ids = temp.Write("ids", "1023, 655 551 315 283\r\n");
  EXPECT_EQ(Eval(Demo() + Arguments{"--ids-file", ids})["perplexity"], result["perplexity"]);
  const Result shown = NgEval(Demo() + Arguments{"--text-file", text});
  EXPECT_THAT(shown.out, StartsWith("4 tokens scored: texts 1, windows 1, the longest 4 tokens\n"
                                    "perplexity "));
  EXPECT_THAT(shown.out, HasSubstr("  bf16 weights, f32 cache (contiguous), flash, "));
}

// Every store and codec that there is, with all figures.
TEST(NgEvalCard, HasARowForEveryCacheAndCodec) {
  const std::vector<Json> rows =
      Lines(Demo() + Arguments{"--samples=1", "--card", "--repeat=1", "--depths=0,100,200"});
  std::vector<std::string> expected;
  for (const std::string& file : FilesIn(NG_BINARY_DIR "/lib/ng/plugins")) {
    if (!absl::StartsWith(file, "ng_cache_")) continue;
    for (const char* codec : {"f32/f32", "bf16/bf16", "f16/f16", "int8/int8", "int8/int4"}) {
      expected.push_back(
          absl::StrCat(absl::StripSuffix(absl::StripPrefix(file, "ng_cache_"), ".so"), " ", codec));
    }
  }
  std::vector<std::string> found;
  for (const Json& row : rows) {
    const std::string codecs =
        absl::StrCat(row["codec_k"].get<std::string>(), "/", row["codec_v"].get<std::string>());
    found.push_back(absl::StrCat(row["cache"].get<std::string>(), " ", codecs));
    SCOPED_TRACE(found.back());
    EXPECT_THAT(
        Keys(row),
        ElementsAre("cache", "codec_k", "codec_v", "bytes_per_token", "perplexity",
                    "perplexity_change_percent", "kl_mean", "kl_p99", "equal_argmax", "prefill",
                    "decode", "f32_perplexity", "texts", "windows", "window", "scored_tokens",
                    "model", "weights", "attention", "isa", "threads", "prefill_chunk"));
    EXPECT_EQ(row["kl_mean"] == 0.0, codecs == "f32/f32");
    EXPECT_LT(row["kl_mean"], 0.02);
    // Quality is the codec's and not the store's.
    EXPECT_EQ(row["perplexity"], rows[(found.size() - 1) % 5]["perplexity"]);
    EXPECT_EQ(row["prefill"]["tokens"], 256);
    EXPECT_GT(row["prefill"]["tok_s"], 0.0);
    EXPECT_GT(row["prefill"]["over_f32"], 0.0);
    ASSERT_EQ(row["decode"].size(), 3U);
    EXPECT_EQ(row["decode"][2]["depth"], 200);
    EXPECT_GT(row["decode"][2]["tok_s"], 0.0);
  }
  EXPECT_EQ(found, expected);
  // 5 layers of width 160 in 5 heads: f32; a byte each and a scale of 4 bytes a head; half of V.
  EXPECT_EQ(rows[0]["bytes_per_token"], 2 * 5 * 160 * 4);
  EXPECT_EQ(rows[3]["bytes_per_token"], 2 * 5 * (160 + 5 * 4));
  EXPECT_EQ(rows[4]["bytes_per_token"], 5 * (160 + 80) + 2 * 5 * 5 * 4);
}

TEST(NgEvalCard, TimesAtDepthZeroAndAsDeepAsTheWindowGoesUnlessTold) {
  const Arguments arguments = Demo() + Arguments{"--samples=1", "--window=100", "--card"};
  const Json row = Lines(arguments + Arguments{"--repeat=1"}).at(0);
  ASSERT_EQ(row["decode"].size(), 2U);
  EXPECT_EQ(row["decode"][0]["depth"], 0);
  EXPECT_EQ(row["decode"][1]["depth"], 99 - 32);
  const Json untimed = Lines(arguments + Arguments{"--repeat=0"}).at(0);
  EXPECT_TRUE(untimed["prefill"].is_null());
  EXPECT_THAT(untimed["decode"], IsEmpty());
  const Result text = NgEval(arguments + Arguments{"--repeat=1", "--wide"});
  EXPECT_THAT(text.out, HasSubstr(" prefill 256 / f32 decode at 0 / f32 decode at 67 / f32\n"));
  EXPECT_THAT(text.out, HasSubstr("\ncontiguous   int8/int4 "));
}

TEST(NgEvalCard, SaysWhyARowCannotRun) {
  const TempDir plugins;
  plugins.Write("ng_cache_void.so", "");
  const Result result = NgEval(
      Demo() + Arguments{"--samples=1", "--card", "--repeat=0", "--cache.paged.pool_tokens=64",
                         "--plugins.path=" + plugins.path(), "--output=jsonl"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  // By the engine that the others are compared with.
  EXPECT_THAT(result.err, HasSubstr("not used: cache.paged.pool_tokens (cache.name = contiguous)"));
  const std::vector<Json> rows = JsonLines(result.out);
  ASSERT_EQ(rows.size(), 20U);
  for (const Json& row : rows) {
    const std::string error = row.contains("error") ? row["error"].get<std::string>() : "";
    const std::string cache = row["cache"];
    EXPECT_EQ(error.empty(), cache == "contiguous" || cache == "budget");
    EXPECT_EQ(absl::StrContains(error, "cache.paged.pool_tokens = 64"), cache == "paged") << error;
    EXPECT_EQ(absl::StrContains(error, "cannot be loaded"), cache == "void") << error;
  }
  EXPECT_THAT(NgEval(Demo() + Arguments{"--samples=1", "--card", "--repeat=0",
                                        "--plugins.path=" + plugins.path()})
                  .out,
              HasSubstr("\nvoid         int4       cannot run: "));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Rows of one chunk are kept, of each engine, and not those of all tokens.
TEST(NgEval, KeepsTheRowsOfOneChunk) {
  const TempDir dir;
  TinyNiels model;
  model.vocab_size = 20000;
  model.max_positions = 1024;
  model.WriteTo(dir.path());
  Ids ids;
  for (int i = 0; i <= 1024; ++i) ids.push_back(i * 17);
  const Arguments arguments = {"--model.path=" + dir.path(), "--ids-file",
                               dir.Write("ids", LineOf(ids)), "--against=cache.codec=int8"};
  const int64_t chunked = NgEval(arguments + Arguments{"--run.prefill_chunk=32"}).peak_bytes;
  const int64_t whole = NgEval(arguments + Arguments{"--run.prefill_chunk=0"}).peak_bytes;
  const int64_t all_rows = int64_t{2} * 1024 * 20000 * 4;
  EXPECT_GT(whole - chunked, all_rows * 9 / 10);
  EXPECT_LT(chunked, all_rows);
}
#endif

TEST(NgEval, AnswersHelpAndVersion) {
  EXPECT_THAT(NgEval({"--help"}).out, HasSubstr("--ids-file"));
  EXPECT_THAT(NgEval({"--version"}).out, StartsWith("ng-eval "));
}

TEST(NgEval, StopsAtTheFirstInterrupt) {
  Command command;
  command.program = "ng-eval";
  command.arguments = Demo() + Arguments{"--samples=4", "--card", "--repeat=10000"};
  command.signal = SIGINT;
  command.signal_after = 1;  // the card's head is there, four lines
  const Result result = ::ng::test::Run(command);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 4) << result.out;
}

TEST(NgEvalError, IsOneLineAndNothingIsPrinted) {
  const Arguments sample = Demo() + Arguments{"--samples=1"};
  ExpectEvalError({"--samples=1"}, 2, {"model.path is not set"});
  ExpectEvalError({"--config", "/nowhere.ini", "--samples=1"}, 2, {"/nowhere.ini"});
  ExpectEvalError(Demo(), 2, {"nothing to score", "--text-file, --ids-file, --samples"});
  ExpectEvalError(sample + Arguments{"--text-file=x"}, 2, {"only one of --text-file"});
  ExpectEvalError(Demo() + Arguments{"--samples=0"}, 2, {"--samples: '0'", "[1, "});
  ExpectEvalError(Demo() + Arguments{"--sampels=1"}, 2, {"did you mean --samples?"});
  ExpectEvalError(sample + Arguments{"--window=257"}, 5, {"--window 257 > 256"});
  ExpectEvalError(sample + Arguments{"--window=101", "--cache.max_tokens=100"}, 5, {"101 > 100"});
  ExpectEvalError(sample + Arguments{"--window=1"}, 2, {"a sequence of 1 token"});
  ExpectEvalError(sample + Arguments{"--run.use_cache=false"}, 2, {"run.use_cache = false"});
  ExpectEvalError(sample + Arguments{"--save-ids=/nowhere/x"}, 7, {"/nowhere/x"});
  ExpectEvalError(sample + Arguments{"--output=csv"}, 2, {"--output=csv", "text or jsonl"});
}

TEST(NgEvalError, NamesTheFileAndTheLine) {
  const TempDir temp;
  const auto ids_error = [&](const std::string& bytes, const std::vector<std::string>& parts) {
    ExpectEvalError(Demo() + Arguments{"--ids-file", temp.Write("ids", bytes)}, 2, parts);
  };
  ids_error("", {"/ids: holds no ids"});
  ids_error("5 6\n\n5 6\n", {"/ids:2: has 0 tokens, must have at least 2"});
  ids_error("5 6\n7\n", {"/ids:2: has 1 token, must"});
  ids_error("5 6\n5 1024\n", {"/ids:2: token id 1024 at position 1", "must be in [0, 1023]"});
  ids_error("-1 5\n", {"/ids:1: token id -1 at position 0"});
  ids_error("5 6x\n", {"/ids:1: '6x' is not a token id"});
  const std::string empty = temp.Write("empty", "");
  ExpectEvalError(Demo() + Arguments{"--text-file", empty}, 2, {"/empty: has 0 tokens"});
  ExpectEvalError(Demo() + Arguments{"--text-file", temp.File("absent")}, 2, {"/absent"});
  const std::string text = temp.Write("text", "To be");
  ExpectEvalError({"--model.path=" NG_TEST_DATA "/golden/llama/untied", "--text-file", text}, 2,
                  {"/text: ", "has no tokenizer"});
}

TEST(NgEvalError, ChecksWhatItComparesWith) {
  const Arguments sample = Demo() + Arguments{"--samples=1"};
  const auto against_error = [&](const std::string& setting, int exit_code,
                                 const std::vector<std::string>& parts) {
    ExpectEvalError(sample + Arguments{"--against", setting}, exit_code, parts);
  };
  against_error("cache.codec", 2, {"--against: 'cache.codec' must be SECTION.KEY=VALUE"});
  against_error("cache.codek=int8", 2, {"--against: ", "did you mean cache.codec?"});
  against_error("cache.name=pagd", 4, {"--against: ", "no cache plugin 'pagd'"});
  against_error("cache.max_tokens=100", 5, {"--against: a window of 255 tokens: ", "255 > 100"});
  against_error("run.use_cache=false", 2, {"--against: run.use_cache = false"});
  against_error("model.path=" NG_TEST_DATA "/golden/llama/untied", 2,
                {"--against: its vocabulary has 83 ids, must have the reference's 1024"});
  ExpectEvalError(sample + Arguments{"--card", "--against=cache.codec=int8"}, 2, {"--against"});
  ExpectEvalError(sample + Arguments{"--depths=0"}, 2, {"--depths needs --card"});
  ExpectEvalError(sample + Arguments{"--card", "--depths=225"}, 5, {"--depths 225", "257 > 256"});
}

TEST(NgEvalError, NamesTheTokenWhoseLogitsAreNotFinite) {
  const TempDir dir;
  const TinyNiels model;
  model.WriteTo(dir.path(), [&](std::vector<NamedTensor>& tensors) {
    for (NamedTensor& tensor : tensors) tensor.data.assign(tensor.data.size(), 3e38F);
  });
  const std::string ids = dir.Write("ids", "1 2 3\n");
  ExpectEvalError({"--model.path=" + dir.path(), "--ids-file", ids}, 6,
                  {"text 0, token 0, the reference: the logits are not finite"});
}

}  // namespace
}  // namespace ng::test
