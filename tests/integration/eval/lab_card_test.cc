// The card of methods as a user runs it: policies and codecs on tasks, texts and in speed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

Result RunCard(const Arguments& arguments) {
  Command command;
  command.program = "ng-eval";
  command.arguments = Demo() + arguments;
  return Run(command);
}

// Small enough for the demo's 256 tokens, and quick.
Arguments SmallCard() {
  return {"--tasks=needle,lookup", "--lengths=128,200", "--examples=2", "--repeat=0"};
}

std::vector<Json> CardLines(const Arguments& arguments) {
  const Result result = RunCard(arguments + Arguments{"--output=jsonl"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return JsonLines(result.out);
}

std::vector<std::string> PartsOf(const std::vector<Json>& lines) {
  std::vector<std::string> parts;
  for (const Json& line : lines) {
    std::string part = line["method"]["name"];
    absl::StrAppend(&part, " ", line["kind"].get<std::string>());
    if (line.contains("task")) absl::StrAppend(&part, " ", line["task"].get<std::string>());
    for (const char* const name : {"length", "depth"}) {
      if (line.contains(name)) absl::StrAppend(&part, " ", line[name].get<int64_t>());
    }
    parts.push_back(part);
  }
  return parts;
}

TEST(NgEvalLab, HasALineForEachPartOfTheWork) {
  const std::vector<Json> lines =
      CardLines({"--card=knorm,int8", "--budgets=48", "--cache.budget.every=16", "--tasks=needle",
                 "--lengths=200", "--examples=3", "--samples=1", "--repeat=1", "--depths=64,160"});
  EXPECT_THAT(
      PartsOf(lines),
      ElementsAre("full task needle 200", "knorm 48 task needle 200", "knorm 48 text",
                  "knorm 48 speed 64", "knorm 48 speed 160", "int8 task needle 200", "int8 text",
                  "int8 speed 64", "int8 speed 160", "no context task needle 200"));
  const Json& task = lines[1];
  EXPECT_THAT(Keys(task), ElementsAre("kind", "task", "length", "method", "examples", "memory",
                                      "prefill", "scoring_s", "command", "run"));
  EXPECT_EQ(task["method"]["when"], "every");
  EXPECT_EQ(task["method"]["every"], "16");
  EXPECT_EQ(task["method"]["policy"], "knorm");
  ASSERT_THAT(task["examples"], SizeIs(3));
  for (const Json& example : task["examples"]) {
    // With the answer they come to 200; the demo's tokens are short.
    EXPECT_LE(example["tokens"], 195);
    EXPECT_GE(example["tokens"], 180);
    EXPECT_LT(example["context_tokens"], example["tokens"]);
  }
  // At most the budget and what comes until others leave.
  EXPECT_EQ(task["memory"]["peak_tokens"], 48 + 16);
  EXPECT_LE(task["memory"]["held_tokens"], 48 + 16);
  EXPECT_EQ(task["memory"]["peak_bytes"], (48 + 16) * 6400);
  EXPECT_GT(lines[0]["memory"]["reserved_bytes"],
            2 * task["memory"]["reserved_bytes"].get<int64_t>());
  EXPECT_EQ(lines[0]["memory"]["held_tokens"], lines[0]["memory"]["peak_tokens"]);
  EXPECT_GE(task["scoring_s"], 0.0);

  // The first tokens leave at 64: then those behind count, in blocks.
  const Json& text = lines[2];
  EXPECT_EQ(text["fed_tokens"], 255);
  EXPECT_EQ(text["scored_tokens"], 255 - 64);
  EXPECT_EQ(text["after_eviction"], true);
  EXPECT_THAT(text["blocks"], SizeIs(3));
  EXPECT_EQ(lines[6]["scored_tokens"], 255);
  EXPECT_EQ(lines[6]["after_eviction"], false);
  EXPECT_EQ(lines[3]["rounds"], 1);
  EXPECT_GT(lines[3]["over_full"], 0.0);
}

// What was measured of texts is what ng-eval says of the two configs.
TEST(NgEvalLab, TextsGiveTheFiguresOfAgainst) {
  const Arguments samples = {"--samples=2", "--window=80"};
  const Json text =
      CardLines(samples + Arguments{"--card=int8", "--tasks=none", "--repeat=0"}).at(0);
  Command command;
  command.program = "ng-eval";
  command.arguments =
      Demo() + samples +
      Arguments{"--against=cache.codec=int8", "--cache.codec=f32", "--output=jsonl"};
  const Json plain = JsonLines(::ng::test::Run(command).out).at(0);
  double nll = 0.0;
  double kl = 0.0;
  double n = 0.0;
  for (const Json& block : text["blocks"]) {
    nll += block["nll"].get<double>();
    kl += block["kl"].get<double>();
    n += block["tokens"].get<double>();
  }
  EXPECT_EQ(n, plain["scored_tokens"]);
  EXPECT_NEAR(std::exp(nll / n), plain["against"]["perplexity"].get<double>(), 1e-9);
  EXPECT_NEAR(kl / n, plain["against"]["kl_mean"].get<double>(), 1e-12);
}

TEST(NgEvalLab, ABudgetForAllIsTheFullCache) {
  const std::vector<Json> lines = CardLines(
      SmallCard() + Arguments{"--card=keydiff", "--budgets=256", "--samples=1", "--window=100"});
  ASSERT_THAT(lines, SizeIs(13));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(lines[i]["examples"], lines[4 + i]["examples"]);
  for (const Json& block : lines[8]["blocks"]) {
    EXPECT_EQ(block["kl"], 0.0);
    EXPECT_EQ(block["nll"], block["full_nll"]);
  }
}

// Policies whose tokens leave at the end of a context read it together, and have the figures that
// each has alone.
TEST(NgEvalLab, ContextsAreReadOnceForAllPoliciesAndBudgets) {
  const Arguments prompt = {"--tasks=needle,lookup",
                            "--lengths=128,200",
                            "--examples=2",
                            "--cache.budget.when=prompt",
                            "--policy.snapkv.queries=8",
                            "--samples=2",
                            "--window=120",
                            "--repeat=1",
                            "--depths=100"};
  const std::vector<Json> together =
      CardLines(prompt + Arguments{"--card=knorm,observed,snapkv", "--budgets=40,80"});
  std::map<std::string, Json> by_part;
  const std::vector<std::string> parts = PartsOf(together);
  for (size_t i = 0; i < parts.size(); ++i) by_part[parts[i]] = together[i];
  EXPECT_EQ(by_part.size(), 4U + 6 * 6 + 4);
  for (const char* const policy : {"knorm", "observed", "snapkv"}) {
    for (const char* const budget : {"40", "80"}) {
      const std::vector<Json> alone = CardLines(
          prompt + Arguments{absl::StrCat("--card=", policy), absl::StrCat("--budgets=", budget)});
      for (const Json& line : alone) {
        const std::string part = PartsOf({line}).front();
        ASSERT_TRUE(by_part.contains(part)) << part;
        const Json& other = by_part[part];
        EXPECT_EQ(line["method"], other["method"]) << part;
        for (const char* const field : {"examples", "memory", "blocks", "scored_tokens"}) {
          if (line.contains(field)) EXPECT_EQ(line[field], other[field]) << part << ' ' << field;
        }
      }
    }
  }
  const Json& task = by_part["knorm 40 task needle 128"];
  EXPECT_EQ(task["method"]["when"], "prompt");
  const int64_t context = task["examples"][0]["context_tokens"];
  EXPECT_LT(task["memory"]["held_tokens"], 40 + 60);
  EXPECT_GE(task["memory"]["peak_tokens"], context);
  EXPECT_NE(task["examples"], by_part["full task needle 128"]["examples"]);
  EXPECT_NE(task["examples"], by_part["observed 40 task needle 128"]["examples"]);
  // The context of a text is the first half of a window.
  const Json& text = by_part["knorm 40 text"];
  EXPECT_EQ(text["after_eviction"], true);
  EXPECT_EQ(text["scored_tokens"], 2 * (119 - 59));
  EXPECT_EQ(by_part["knorm 80 text"]["after_eviction"], false);
}

// A share of each context: of 0.5 what a budget of half of it keeps.
TEST(NgEvalLab, BudgetsMayBeSharesOfTheContext) {
  const std::vector<Json> lines = CardLines(
      {"--tasks=needle", "--lengths=200", "--examples=1", "--repeat=0", "--samples=1",
       "--window=120", "--cache.budget.when=prompt", "--card=knorm,keydiff", "--budgets=0.5,64"});
  EXPECT_THAT(PartsOf(lines),
              ElementsAre("full task needle 200", "knorm 0.5 task needle 200",
                          "knorm 64 task needle 200", "keydiff 0.5 task needle 200",
                          "keydiff 64 task needle 200", "knorm 0.5 text", "knorm 64 text",
                          "keydiff 0.5 text", "keydiff 64 text", "no context task needle 200"));
  EXPECT_EQ(lines[1]["method"]["budget"], 0.5);
  EXPECT_EQ(lines[1]["method"]["ratio"], "0.5");
  EXPECT_EQ(lines[2]["method"]["budget"], 64);
  EXPECT_EQ(lines[2]["method"]["ratio"], "0");
  const int64_t context = lines[1]["examples"][0]["context_tokens"];
  const std::string half = absl::StrCat("--budgets=", context / 2);
  const std::vector<Json> as_tokens =
      CardLines({"--tasks=needle", "--lengths=200", "--examples=1", "--repeat=0",
                 "--cache.budget.when=prompt", "--card=knorm", half});
  EXPECT_EQ(as_tokens[1]["examples"], lines[1]["examples"]);
  EXPECT_EQ(as_tokens[1]["memory"]["held_tokens"], lines[1]["memory"]["held_tokens"]);
  // The command of a line gives it again.
  const std::string command = lines[1]["command"];
  EXPECT_THAT(command, HasSubstr(" --budgets=0.5 "));
  // While tokens leave no length is known.
  const std::vector<Json> every =
      CardLines(SmallCard() + Arguments{"--card=knorm", "--budgets=0.5,64"});
  EXPECT_EQ(every[4]["kind"], "error");
  EXPECT_THAT(every[4]["error"].get<std::string>(),
              HasSubstr("cache.budget.ratio = 0.5 is a share of a context"));
  EXPECT_THAT(every, SizeIs(4 + 1 + 4 + 4));
}

// One that cannot run says why, and the others run without it.
TEST(NgEvalLab, APolicyThatCannotReadWithTheOthersIsLeftOut) {
  const std::vector<Json> lines =
      CardLines(SmallCard() +
                Arguments{"--cache.budget.when=prompt", "--card=knorm,keydiff", "--budgets=20,64"});
  std::vector<std::string> failed;
  for (const Json& line : lines) {
    if (line["kind"] != "error") continue;
    failed.push_back(line["method"]["name"]);
    EXPECT_THAT(line["error"].get<std::string>(), HasSubstr("must be at least cache.budget.sinks"));
  }
  EXPECT_THAT(failed, ElementsAre("knorm 20", "keydiff 20"));
  EXPECT_EQ(std::ranges::count(PartsOf(lines), "keydiff 64 task lookup 200"), 1);
}

// What the question alone gets, for the range of the scores.
TEST(NgEvalLab, TheFloorIsAnsweredWithoutAContext) {
  const std::vector<Json> lines = CardLines(SmallCard() + Arguments{"--card=int8"});
  ASSERT_THAT(lines, SizeIs(12));
  for (size_t i = 8; i < 12; ++i) {
    EXPECT_EQ(lines[i]["method"]["name"], "no context");
    for (size_t example = 0; example < 2; ++example) {
      const Json& floor = lines[i]["examples"][example];
      const Json& full = lines[i - 8]["examples"][example];
      EXPECT_EQ(floor["answers"], full["answers"]);
      EXPECT_EQ(floor["context_tokens"], 0);
      EXPECT_LT(floor["tokens"],
                full["tokens"].get<int64_t>() - full["context_tokens"].get<int64_t>() + 4);
      EXPECT_NE(floor["margin"], full["margin"]);
    }
  }
  const Result text = RunCard(SmallCard() + Arguments{"--card=int8", "--wide"});
  EXPECT_THAT(text.out, HasSubstr("\nno context "));
  EXPECT_THAT(
      CardLines({"--card=int8", "--tasks=none", "--samples=1", "--window=64", "--repeat=0"}),
      SizeIs(1));
}

TEST(NgEvalLab, FiguresDoNotDependOnChunksAndThreads) {
  const Arguments card =
      SmallCard() + Arguments{"--card=knorm", "--budgets=64", "--cache.budget.every=32"};
  const std::vector<Json> lines = CardLines(card);
  for (const char* const other : {"--run.prefill_chunk=7", "--run.threads=1"}) {
    const std::vector<Json> again = CardLines(card + Arguments{other});
    ASSERT_EQ(again.size(), lines.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(again[i]["examples"], lines[i]["examples"]) << other;
    }
  }
}

// The lines' own command gives the line again.
TEST(NgEvalLab, TheCommandOfALineGivesItAgain) {
  const std::vector<Json> lines =
      CardLines(SmallCard() + Arguments{"--card=knorm,bf16", "--budgets=64"});
  const Json& line = lines.at(7);  // of knorm: lookup of 200
  EXPECT_EQ(line["task"], "lookup");
  const std::string command = line["command"];
  ASSERT_THAT(command, StartsWith("ng-eval "));
  const Result result = Shell(absl::StrCat("\"$(dirname \"$NG\")\"/", command, " --output=jsonl"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<Json> again = JsonLines(result.out);
  ASSERT_THAT(again, SizeIs(3));  // the full cache's, its own and that without a context
  EXPECT_EQ(again[1]["examples"], line["examples"]);
  EXPECT_EQ(again[1]["method"], line["method"]);
}

TEST(NgEvalLab, ResumeRunsOnlyWhatIsNotThere) {
  const TempDir dir;
  const std::string file = dir.File("card.jsonl");
  const Arguments card =
      SmallCard() + Arguments{"--card=window,f16", "--budgets=64", "--lines", file};
  ASSERT_EQ(RunCard(card).exit_code, 0);
  const std::string all = ReadFile(file);
  ASSERT_THAT(JsonLines(all), SizeIs(16));
  // Five lines and a part of the sixth, as a killed run leaves them; a time in them is a mark.
  size_t end = 0;
  for (int line = 0; line < 5; ++line) end = all.find('\n', end) + 1;
  std::string kept = all.substr(0, end);
  const size_t mark = kept.find("\"seconds\":") + 10;
  kept.replace(mark, kept.find('}', mark) - mark, "123.5");
  std::ofstream(file) << kept << all.substr(end, 40);
  const Result resumed = RunCard(card + Arguments{"--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  const std::string again = ReadFile(file);
  EXPECT_TRUE(absl::StartsWith(again, kept));
  EXPECT_EQ(PartsOf(JsonLines(again)), PartsOf(JsonLines(all)));
  EXPECT_THAT(resumed.out, HasSubstr("\nf16 "));
  // With all of it there nothing is run: the method's engine is not even opened.
  EXPECT_EQ(RunCard(card + Arguments{"--resume"}).exit_code, 0);
  EXPECT_EQ(ReadFile(file), again);
  // What was run otherwise is not taken.
  ExpectErrorOf("ng-eval", RunCard(card + Arguments{"--resume", "--sampler.seed=5"}), 2,
                {file, ":1: was run otherwise: config.sampler.seed was \"1\" and is \"5\""});
  EXPECT_EQ(ReadFile(file), again);
}

TEST(NgEvalLab, AnInterruptLeavesWholeLinesToGoOnWith) {
  const TempDir dir;
  const std::string file = dir.File("card.jsonl");
  Arguments card =
      Demo() + SmallCard() + Arguments{"--card=window", "--budgets=64", "--lines", file};
  *std::ranges::find(card, "--examples=2") = "--examples=40";
  Command command;
  command.program = "ng-eval";
  command.arguments = card + Arguments{"--output=jsonl"};
  command.signal = SIGINT;
  command.signal_after = 1;  // the first line is there
  const Result result = ::ng::test::Run(command);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  const std::vector<Json> lines = JsonLines(ReadFile(file));
  EXPECT_GE(lines.size(), 1U);
  EXPECT_LT(lines.size(), 8U);
}

TEST(NgEvalLab, WritesAPageWithAllMethods) {
  const TempDir dir;
  const std::string file = dir.File("card.html");
  const Result result = RunCard(SmallCard() + Arguments{"--card=random,int4", "--budgets=64,8",
                                                        "--samples=1", "--report", file, "--wide"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nrandom 8       cannot run: cache plugin 'budget'"));
  EXPECT_THAT(result.out,
              HasSubstr("not measurable, the full cache solves less than 60 %: needle 128"));
  const std::string page = ReadFile(file);
  const std::string begin = "<script id=\"ng-card\" type=\"application/json\">";
  ASSERT_THAT(page, HasSubstr(begin));
  const size_t at = page.find(begin) + begin.size();
  const Json data = Json::parse(page.substr(at, page.find("</script>", at) - at));
  std::vector<std::string> names;
  for (const Json& method : data["methods"]) names.push_back(method["name"]);
  EXPECT_THAT(names, ElementsAre("full", "random 64", "random 8", "int4", "no context"));
  EXPECT_THAT(data["methods"][0]["tasks"], SizeIs(4));
  EXPECT_TRUE(data["methods"][2].contains("error"));
  EXPECT_EQ(data["methods"][3]["method"]["codec_k"], "int8");
  EXPECT_GT(data["methods"][1]["text"]["kl"]["value"], 0.0);
  EXPECT_THAT(data["command"].get<std::string>(), HasSubstr(" --card=random,int4 --budgets=64,8 "));
}

TEST(NgEvalLabError, IsOneLineBeforeAnythingIsRun) {
  const auto expect = [](const Arguments& arguments, int exit_code,
                         const std::vector<std::string>& parts) {
    const Result result = RunCard(arguments);
    EXPECT_THAT(result.out, IsEmpty());
    ExpectErrorOf("ng-eval", result, exit_code, parts);
  };
  expect({"--card=knrom", "--tasks=none"}, 4,
         {"no policy or codec 'knrom'; did you mean 'knorm'?"});
  expect({"--card=knorm", "--lengths=257"}, 5, {"--lengths 257 > 256 tokens"});
  expect({"--card=knorm", "--lengths=20", "--tasks=needle"}, 5,
         {"--lengths: a length of 20 tokens: the task needle needs at least"});
  expect({"--card=knorm", "--tasks=none", "--depths=225"}, 5, {"--depths 225", "257 > 256"});
  expect({"--card=knorm", "--tasks=none", "--report=/nowhere/x"}, 7, {"/nowhere/x"});
  expect({"--card=knorm", "--tasks=none", "--lines=/nowhere/x"}, 7, {"/nowhere/x"});
  expect({"--card=knorm", "--tasks=copyng"}, 2,
         {"--tasks: no task 'copyng'; did you mean 'copying'?"});
  expect({"--card=knorm", "--resume"}, 2, {"--resume needs --lines"});
  expect({"--card=knorm", "--budgets=1.5"}, 2,
         {"--budgets: '1.5' must be a share of a context between 0 and 1, or a number of tokens"});
  expect({"--card=knorm", "--budgets=0.25,0.250"}, 2, {"--budgets: 0.25 is given twice"});
  expect({"--card=knorm", "--budgets=many"}, 2, {"--budgets: 'many' must be a number of tokens"});
  expect({"--card=knorm", "--run.use_cache=false"}, 2, {"run.use_cache = false"});
  Command command;
  command.program = "ng-eval";
  command.arguments = {"--model.path=" NG_TEST_DATA "/golden/llama/untied", "--card=knorm"};
  ExpectErrorOf("ng-eval", ::ng::test::Run(command), 2, {"has no tokenizer", "--tasks=none"});
}

}  // namespace
}  // namespace ng::test
