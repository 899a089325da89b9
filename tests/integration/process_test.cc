// What the system does to a program: threads and memory that it does not give, signals, readers
// that do not read. Each program ends as documented, in one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <sstream>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/run_support.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kBin[] = NG_BINARY_DIR "/bin/";

int64_t LinesOf(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

// --- threads ---

TEST(Threads, ThatCannotBeBegunAreSaidOnceAndChangeNothing) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's runtime must be loaded first";
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) < 2) {
    GTEST_SKIP() << "one CPU: no thread is asked for";
  }
  Command command;
  command.program = "ng-run";
  command.arguments = DemoTurn(8) + Arguments{"--run.threads=2"};
  const Result with = test::Run(command);
  command.environment = {"LD_PRELOAD=" NG_BINARY_DIR "/tests/fixtures/preload/ng_no_threads.so"};
  const Result without = test::Run(command);
  EXPECT_EQ(without.exit_code, 0) << without.err;
  EXPECT_EQ(without.out, with.out);
  EXPECT_THAT(without.err, StartsWith("ng-run: warning: run.threads: only 1 of 2 threads"));
  EXPECT_EQ(LinesOf(without.err), 2) << without.err;  // the warning, the closing line
  EXPECT_THAT(with.err, Not(HasSubstr("warning")));

  command.program = "ng-bench";
  command.arguments =
      Demo() + Arguments{"--prompt-tokens=4", "--decode-tokens=1", "--repeat=1", "--run.threads=2"};
  const Result bench = test::Run(command);
  EXPECT_EQ(bench.exit_code, 5);
  EXPECT_THAT(bench.err, HasSubstr("measuring the machine needs 2 threads"));
}

// --- memory ---

struct Program {
  const char* name;
  Arguments arguments;
};

// From where the loader finds no room for the libraries, or one of them dies while it is loaded, to
// where all goes well. The text that one of them reads is no other program's, which would complain
// where its reader has ended.
TEST(AddressSpace, TooSmallIsExitFiveInOneLine) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes terabytes of addresses";
  const Program programs[] = {
      {"ng-run", DemoTurn(2) + Arguments{"--run.threads=2"}},
      {"ng-bench", Demo() + Arguments{"--prompt-tokens=4", "--decode-tokens=1", "--repeat=1"}},
      {"ng-diff", DemoTurn(1) + Arguments{"--against", "run.prefill_chunk=2"}},
      {"ng-eval", Demo() + Arguments{"--samples=1", "--window=4"}},
      {"ng-plan", Demo()},
      {"ng-tokenize", {"--tokenizer", NG_SOURCE_DIR "/configs/demo"}},
  };
  constexpr int kLoaderFailed = 127;
  const auto loads = [](const char* program, int64_t kib) {
    const int code =
        Shell("ulimit -v $1; \"$2\" --version", {absl::StrCat(kib), absl::StrCat(kBin, program)})
            .exit_code;
    return code != kLoaderFailed && code < 128;
  };
  for (const Program& program : programs) {
    std::set<int> codes;
    for (int64_t kib = 44000; kib <= 64000; kib += 1000) {
      const Result result =
          Shell("ulimit -v $1; shift; \"$@\" << END\nhello\nEND\n",
                Arguments{absl::StrCat(kib), absl::StrCat(kBin, program.name)} + program.arguments);
      codes.insert(result.exit_code);
      if (result.exit_code == 0 || !loads(program.name, kib)) continue;
      EXPECT_EQ(result.exit_code, 5) << program.name << " in " << kib << " KiB: " << result.err;
      EXPECT_THAT(result.err, HasSubstr(absl::StrCat(program.name, ": error: ")));
      EXPECT_EQ(absl::StrContains(result.err, "warning") ? 1 : LinesOf(result.err), 1)
          << result.err;
    }
    EXPECT_GT(codes.size(), 1U) << program.name << ": the limits show nothing";
  }
}

// --- signals ---

class ProcessSignals : public ::testing::Test {
 protected:
  ProcessSignals() {
    TinyNiels model;
    model.max_positions = int64_t{1} << 20;
    model.WriteTo(temp_.path());
  }

  Command LongRun() {
    Command command;
    command.program = "ng-run";
    command.arguments = Greedy(temp_.path(), "1 2 3", 500000) +
                        Arguments{"--output=jsonl", "--debug-cache", "--debug-layer=0", "--steps",
                                  outputs_.File("steps")};
    command.signal_after = 2000;  // some ten steps
    return command;
  }

  TempDir temp_;
  TempDir outputs_;
};

TEST_F(ProcessSignals, HangupStopsAtATokenAndClosesTheOutputs) {
  Command command = LongRun();
  command.signal = SIGHUP;
  const Result result = test::Run(command);
  EXPECT_EQ(result.exit_code, 129);
  const Json line = JsonLines(result.out).at(0);
  EXPECT_EQ(line["stop_reason"], "interrupted");
  EXPECT_EQ(JsonLines(ReadFile(outputs_.File("steps"))).size(), line["ids"].size() - 3);
}

TEST_F(ProcessSignals, QuitLeavesAtOnceWithoutACore) {
  Command command = LongRun();
  command.signal = SIGQUIT;
  const Result result = test::Run(command);
  EXPECT_EQ(result.exit_code, 131);
  EXPECT_EQ(result.out, "");
}

TEST_F(ProcessSignals, WhatIsIgnoredFromTheStartStaysIgnored) {
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGQUIT}) {
    Command command;
    command.program = "/bin/sh";
    command.arguments = Arguments{"-c", absl::StrCat("trap '' ", signal, "; exec \"$@\""), "sh",
                                  absl::StrCat(kBin, "ng-run")} +
                        Greedy(temp_.path(), "1 2 3", 100) + Arguments{"--debug-cache"};
    command.signal = signal;
    command.signal_after = 1000;
    const Result result = test::Run(command);
    EXPECT_EQ(result.exit_code, 0) << signal;
    EXPECT_NE(result.out, "");
  }
}

// Nobody reads stdout, which is full long before the end.
TEST_F(ProcessSignals, AReaderThatDoesNotReadHoldsNothingBack) {
  std::string ids;
  for (int i = 0; i < 3000; ++i) absl::StrAppend(&ids, i == 0 ? "" : ",", i % 61);
  std::string prompts;
  for (int i = 0; i < 50; ++i) absl::StrAppend(&prompts, "{\"prompt_ids\": [", ids, "]}\n");
  const std::string file = outputs_.Write("prompts.jsonl", prompts);
  const Result result = Shell(
      "mkfifo \"$1\"; exec 3<> \"$1\"; shift; \"$NG\" \"$@\" >&3 & sleep 0.6; "
      "kill -TERM $!; wait $!; echo $?",
      Arguments{outputs_.File("fifo"), "--model.path=" + temp_.path(), "--prompts", file,
                "--run.max_new_tokens=0", "--output=jsonl"});
  EXPECT_EQ(result.out, "143\n") << result.err;
}

TEST_F(ProcessSignals, BenchAndEvalStop) {
  const Program programs[] = {
      {"ng-bench", Demo() + Arguments{"--prompt-tokens=8", "--repeat=10000"}},
      {"ng-eval", Demo() + Arguments{"--samples=5000", "--window=200", "--cache.max_sequences=2"}},
  };
  for (const Program& program : programs) {
    const auto begin = std::chrono::steady_clock::now();
    const Result result = Shell("\"$@\" >/dev/null & sleep 0.4; kill -TERM $!; wait $!",
                                Arguments{absl::StrCat(kBin, program.name)} + program.arguments);
    EXPECT_EQ(result.exit_code, 143) << program.name << ": " << result.err;
    EXPECT_EQ(result.err, "");
    // Half a second on a machine that does nothing else.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  }
}

TEST(FileSize, LimitOfAnOutputIsAnErrorAndNoSignal) {
  const TempDir temp;
  const Result result = Shell("out=$1; shift; ulimit -f 0; exec \"$NG\" \"$@\" > \"$out\"",
                              Arguments{temp.File("out")} + DemoTurn(1));
  ExpectError(result, 7, {"stdout: cannot write: File too large"});
}

// --- plugins that misbehave when they are only listed ---

TEST(ListPlugins, SurvivesWhatPluginsDoWhenTheyAreOpened) {
  const std::string fixtures = NG_BINARY_DIR "/tests/fixtures/broken_plugins/";
  const Result result = NgRun(
      {"--list-plugins", absl::StrCat("--plugins.path=", fixtures, "exits_when_opened:", fixtures,
                                      "throws_when_opened:", fixtures, "hangs_when_opened")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const std::pair<const char*, const char*> lines[] = {
      {"exits_when_opened", "ends the process with exit code 0"},
      {"throws_when_opened", "throws: thrown by a constructor"},
      {"hangs_when_opened", "takes more than 3 s"},
  };
  for (const auto& [name, what] : lines) {
    EXPECT_THAT(result.out,
                HasSubstr(absl::StrCat("sampler ", name, "  unusable: plugin ", fixtures, name,
                                       "/ng_sampler_", name, ".so: opening it ", what, "\n")));
  }
  EXPECT_THAT(result.out, HasSubstr("sampler.top_p.p = 0.95"));
}

TEST(WorldWritable, PluginFoldersAreRefusedUnlessTheConfigAllowsThem) {
  const TempDir temp;
  std::filesystem::permissions(temp.path(), std::filesystem::perms::all);
  const Arguments run = DemoTurn(1) + Arguments{"--plugins.path=" + temp.path()};
  ExpectError(NgRun(run), 4, {temp.path(), "mode 0777", "plugins.allow_world_writable = true"});
  EXPECT_EQ(NgRun(run + Arguments{"--plugins.allow_world_writable=true"}).exit_code, 0);
}

// --- what is asked for and not done ---

TEST(Warnings, NameOptionsOfStagesThatAreNotInTheChain) {
  const Arguments options = {"--sampler.top_p.p=0.9", "--cache.paged.page_tokens=16"};
  const char* const expected =
      "ng-run: warning: not used: sampler.top_p.p (sampler.chain = temperature,top_k), "
      "cache.paged.page_tokens (cache.name = contiguous)\n";
  EXPECT_THAT(NgRun(DemoTurn(1) + options).err, StartsWith(expected));
  EXPECT_THAT(NgRun(Demo() + options + Arguments{"--dry-run"}).out,
              HasSubstr("warnings\n  not used: sampler.top_p.p"));
  // What the file holds for a choice that the command line changes is no mistake.
  EXPECT_THAT(NgRun(DemoTurn(1) + Arguments{"--sampler.chain=greedy"}).err,
              Not(HasSubstr("warning")));
  EXPECT_THAT(NgRun(DemoTurn(1) + Arguments{"--sampler.chain=top_p", "--sampler.top_p.p=0.9"}).err,
              Not(HasSubstr("warning")));
}

TEST(Warnings, SayThatNoOutputShowsATracedLayer) {
  EXPECT_THAT(NgRun(DemoTurn(1) + Arguments{"--trace-layer=0"}).err,
              StartsWith("ng-run: warning: --trace-layer has no output that shows the rows"));
  const TempDir temp;
  EXPECT_THAT(NgRun(DemoTurn(1) + Arguments{"--trace-layer=0", "--steps", temp.File("s")}).err,
              Not(HasSubstr("warning")));
}

TEST(SuggestedSampling, IsSaidWhereTheChainDoesOtherwise) {
  const TempDir temp;
  TinyNiels().WriteTo(temp.path());
  const auto closing = [&](const char* json, const Arguments& options) {
    temp.Write("generation_config.json", json);
    const Result result = NgRun(Arguments{"--model.path=" + temp.path(), "--prompt-ids=1 2",
                                          "--run.max_new_tokens=1", "--run.model_defaults=false"} +
                                options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  };
  const char* const llama = R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9})";
  EXPECT_THAT(closing(llama, {}),
              HasSubstr(", generation_config.json's temperature 0.6, top_p 0.9 are not used, "));
  EXPECT_THAT(closing(llama, {"--sampler.chain=temperature,top_p",
                              "--sampler.temperature.value=0.6", "--sampler.top_p.p=0.9"}),
              Not(HasSubstr("not used")));
  EXPECT_THAT(closing(R"({"do_sample": false, "temperature": 0.6})", {}),
              HasSubstr("generation_config.json's do_sample false is not used, "));
  EXPECT_THAT(closing(R"({"do_sample": false})", {"--sampler.chain=greedy"}),
              Not(HasSubstr("not used")));
  EXPECT_THAT(
      closing(R"({"temperature": 1.0, "top_p": 1, "num_beams": 1})", {"--sampler.chain=greedy"}),
      Not(HasSubstr("not used")));
  temp.Write("generation_config.json", llama);
  EXPECT_THAT(NgRun({"--model.path=" + temp.path(), "--dry-run", "--run.model_defaults=false"}).out,
              HasSubstr("generation_config.json's temperature 0.6, top_p 0.9 are not used"));
}

// The same run as with the values in the config, and each value's origin is told.
TEST(ModelDefaults, CountWhereTheConfigIsSilent) {
  const TempDir temp;
  TinyNiels().WriteTo(temp.path());
  temp.Write("generation_config.json",
             R"({"do_sample": true, "temperature": 0.6, "top_k": 7, "eos_token_id": [3, 4]})");
  const Arguments model = {"--model.path=" + temp.path()};
  const auto run = [&](const Arguments& options) {
    const Result result =
        NgRun(model + Arguments{"--prompt-ids=1 2", "--run.max_new_tokens=12"} + options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result;
  };
  const Result by_makers = run({});
  EXPECT_THAT(by_makers.err, HasSubstr(", model_defaults, "));
  const Result spelled = run({"--sampler.chain=temperature,top_k", "--sampler.top_k.k=7",
                              "--sampler.temperature.value=0.6", "--run.model_defaults=false"});
  EXPECT_EQ(by_makers.out, spelled.out);
  EXPECT_THAT(spelled.err, Not(HasSubstr("model_defaults")));
  EXPECT_NE(run({"--run.model_defaults=false"}).out, by_makers.out);

  const std::string origin = temp.File("generation_config.json");
  const std::string plan = NgRun(model + Arguments{"--dry-run", "--sampler.top_k.k=9"}).out;
  EXPECT_THAT(plan, HasSubstr("sampler.chain = temperature,top_k  (" + origin + ")\n"));
  EXPECT_THAT(plan, HasSubstr("temperature.value = 0.6  (" + origin + ": key \"temperature\")"));
  EXPECT_THAT(plan, HasSubstr("sampler.top_k.k = 9  (command line)"));
  EXPECT_THAT(plan, HasSubstr("\n  stop ids 3,4 from " + origin + ": key \"eos_token_id\""));
  // What is printed gives the same run, also without the makers' file.
  const std::string ini = temp.Write("run.ini", NgRun(model + Arguments{"--print-config"}).out);
  EXPECT_EQ(run({"--config", ini}).out, by_makers.out);

  for (const auto& [json, found, allowed] :
       {std::tuple{R"({"top_p": 1.5})", "top_p\" = 1.5 for sampler.top_p.p", "(0, 1]"},
        {R"({"temperature": -1})", "temperature\" = -1", "(0, 100]"},
        {R"({"top_k": 2.5})", "top_k\" = 2.5", "an integer"},
        {R"({"min_p": "low"})", "min_p\" = \"low\"", "number"}}) {
    temp.Write("generation_config.json", json);
    ExpectError(NgRun(model + Arguments{"--prompt-ids=1"}), 3, {origin, found, allowed});
  }
  temp.Write("generation_config.json", R"({"top_p": 1.5})");
  EXPECT_EQ(run({"--sampler.top_p.p=0.5"}).exit_code, 0);  // the user's own counts
  EXPECT_EQ(run({"--run.model_defaults=false"}).exit_code, 0);
}

// The stage ends the answer; text and stream leave the stop text out, the ids keep it.
TEST(StopTexts, AreLeftOutOfTheTextAndKeptInTheIds) {
  const Arguments json = {"--output=jsonl"};
  const Json whole = JsonLines(NgRun(DemoTurn(40) + json).out).at(0);
  const std::string text = whole["text"];
  const std::string stop = text.substr(text.rfind(' ') + 1, 4);
  const auto with = [](const std::string& texts) {
    return DemoTurn(40) + Arguments{"--sampler.chain=temperature,top_k,stop_texts",
                                    "--sampler.stop_texts.texts=" + texts};
  };
  const Json line = JsonLines(NgRun(with(stop) + json).out).at(0);
  const std::string left = text.substr(0, text.find(stop));
  EXPECT_EQ(line["text"], left);
  EXPECT_EQ(line["stop_reason"], "stop_text");
  EXPECT_EQ(NgRun(with(stop)).out, left + "\n");  // as it is streamed
  ASSERT_LE(line["ids"].size(), whole["ids"].size());
  EXPECT_TRUE(std::equal(line["ids"].begin(), line["ids"].end(), whole["ids"].begin()));
  // What was held back, and did not go on as a stop text does, comes out.
  EXPECT_EQ(NgRun(with(stop + "!!")).out, text + "\n");
  ExpectError(NgRun(DemoTurn(1) + Arguments{"--sampler.stop_texts.texts=a,,b"}), 2, {"a,,b"});
}

// An answer of a given form: valid and ended by the stage, at a hostile temperature too.
TEST(GrammarStage, AnswersAsTheSchemaSays) {
  const auto ask = [](const std::string& schema, int seed) {
    return DemoTurn(120) + Arguments{"--sampler.chain=grammar,temperature", "--output=jsonl",
                                     "--sampler.temperature.value=5",
                                     "--sampler.seed=" + std::to_string(seed),
                                     "--sampler.grammar.json_schema=" + schema};
  };
  const std::string schema = R"({"type":"object","properties":{"age":{"type":"integer","minimum":0,
      "maximum":120},"name":{"type":"string","maxLength":12}},"required":["age","name"],
      "additionalProperties":false})";
  for (int seed = 1; seed <= 5; ++seed) {
    const Json line = JsonLines(NgRun(ask(schema, seed)).out).at(0);
    EXPECT_EQ(line["stop_reason"], "stage");
    const Json answer = Json::parse(line["text"].get<std::string>());
    EXPECT_LE(answer.at("age"), 120);
    EXPECT_EQ(answer.size(), 2U);
  }
  ExpectError(NgRun(ask(R"({"items":{"$dynamicRef":"#x"}})", 1)), 2,
              {"sampler.grammar.json_schema", "#/items/$dynamicRef", "'#x' is an anchor"});
  ExpectError(NgRun(DemoTurn(1) + Arguments{"--sampler.chain=grammar"}), 2, {"exactly one"});
}

// The short ways are the long ones.
TEST(Habits, AreShortFormsOfTheLongOnes) {
  const std::string demo = NG_SOURCE_DIR "/configs/demo";
  const Result expected =
      NgRun({"--model.path=" + demo, "--message", "Who art thou?", "--run.max_new_tokens=12"});
  EXPECT_EQ(expected.exit_code, 0) << expected.err;
  for (const Arguments& arguments : {Arguments{demo, "Who art thou?", "-n", "12"},
                                     {"-n12", demo, "Who art thou?"},
                                     {"-m", demo, "-n", "12", "-t", "1", "Who art thou?"},
                                     {"-n", "12", demo, "--", "Who art thou?"}}) {
    EXPECT_EQ(NgRun(arguments).out, expected.out);
  }
  EXPECT_EQ(NgRun({demo, "-n", "12"}, "Who art thou?\n").out, expected.out);
  EXPECT_EQ(NgRun({demo, "-c", "-n", "12"}, "Who art thou?\n").out, expected.out);
  EXPECT_EQ(NgRun({demo, "-p", "Who art", "-n", "12"}).out,
            NgRun({demo, "--prompt-file", "-", "-n", "12"}, "Who art").out);
  const Arguments several = {demo, "-n", "12", "Who art thou?", "What news?"};
  EXPECT_THAT(NgRun(several).out, StartsWith(expected.out));
  EXPECT_EQ(JsonLines(NgRun(several + Arguments{"--output=jsonl"}).out).size(), 2U);
  // Without a chat template a text is completed.
  EXPECT_EQ(NgRun({demo, "Who art", "-n", "5", "--tokenizer.chat_template=none"}).out,
            NgRun({demo, "-p", "Who art", "-n", "5"}).out);
  ExpectError(NgRun({demo}), 2, {"nothing to run"});
  ExpectError(NgRun({demo, "a", "-p", "b"}), 2, {"only one of", "'a'"});
  ExpectError(NgRun({demo, ""}), 2, {"the text is empty"});
  ExpectError(NgRun({demo, "a", "-x"}), 2,
              {"unknown option -x", "-m, -p, -c, -n, -t, -q, -v and -h"});
  ExpectError(NgRun({"-n"}), 2, {"-n needs a value"});
}

TEST(Help, IsOneScreenAndAllIsAll) {
  const Result help = NgRun({"-h"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, StartsWith("usage:\n  ng-run MODEL [TEXT ...]"));
  EXPECT_LE(LinesOf(help.out), 24);
  std::istringstream lines(help.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_EQ(NgRun({"--help"}).out, help.out);
  const std::string all = NgRun({"--help", "all"}).out;
  EXPECT_THAT(all, HasSubstr("sampler.top_k.k = 50"));
  EXPECT_THAT(all, HasSubstr("--trace-layer"));
  EXPECT_THAT(all, HasSubstr("--temperature, --temp"));
  EXPECT_EQ(NgRun({"-h", "all"}).out, all);
}

TEST(ClosingLine, CountsEveryGeneratedToken) {
  EXPECT_THAT(NgRun(DemoTurn(3) + Arguments{"--sampler.chain=greedy"}).err,
              HasSubstr(", generated 3 tokens, decode at "));
  EXPECT_THAT(NgRun(DemoTurn(1)).err,
              EndsWith(", generated 1 tokens, cut after 1 token; -n 2 gives more\n"));
}

}  // namespace
}  // namespace ng::test
