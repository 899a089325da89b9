// How long an answer may be, and how other programs' names for config keys come to the run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// The demo's model without its config: a context of 256, and a message of 8 tokens.
const char* const kModel = NG_SOURCE_DIR "/configs/demo";
const char* const kMessage = "Who art thou?";
const char* const kNeverEnds = "--run.stop_ids=";

std::string DryRun(const Arguments& arguments) {
  const Result result = NgRun(Arguments{kModel} + arguments + Arguments{"--dry-run"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

TEST(AnswerLength, OfAMessageIsWhatFitsAndOfATextSixtyFour) {
  EXPECT_THAT(DryRun({kMessage}),
              EndsWith("\nnew tokens 248, what the context leaves (run.max_new_tokens = auto, "
                       "default)\n"));
  EXPECT_THAT(DryRun({"--message", kMessage}), HasSubstr("memory for 1 x 256 tokens"));
  EXPECT_THAT(DryRun({"-p", kMessage}), HasSubstr("\nnew tokens 64, a text to go on with (run."));
  EXPECT_THAT(DryRun({kMessage, "--tokenizer.chat_template=none"}), HasSubstr("\nnew tokens 64, "));
  EXPECT_THAT(DryRun({kMessage, "-n", "9"}),
              HasSubstr("\nnew tokens 9 (run.max_new_tokens = 9, command line)"));
  EXPECT_THAT(DryRun({"--chat"}), HasSubstr("what the conversation leaves, at most 8192"));
}

TEST(AnswerLength, OfARunThatIsLookedIntoStaysShort) {
  const TempDir temp;
  for (const Arguments& looks : {Arguments{"--view", temp.File("v.html")},
                                 {"--trace", temp.File("t")},
                                 {"--save", temp.File("s.safetensors")}}) {
    EXPECT_THAT(DryRun(Arguments{kMessage} + looks),
                HasSubstr("\nnew tokens 64, a run that is looked into"));
  }
}

TEST(AnswerLength, OfEachPromptIsItsOwn) {
  const TempDir temp;
  const std::string message = R"({"messages": [{"role": "user", "content": "Who art thou?"}])";
  const std::string file =
      temp.Write("prompts.jsonl", absl::StrCat(message, "}\n", R"({"prompt": "Who art"})", "\n",
                                               message, R"(, "max_new_tokens": 5})", "\n"));
  EXPECT_THAT(DryRun({"--prompts", file}),
              HasSubstr("\nnew tokens 248, what the context leaves; 5; 64, a text to go on with"));
  const auto lines =
      JsonLines(NgRun({kModel, "--prompts", file, "--output", "jsonl", kNeverEnds}).out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0]["ids"].size(), 256U);
  EXPECT_EQ(lines[1]["ids"].size() - lines[1]["prompt_ids"].size(), 64U);
  EXPECT_EQ(lines[2]["ids"].size() - lines[2]["prompt_ids"].size(), 5U);
}

TEST(AnswerLength, IsNeverRefusedWhereSixtyFourWereTaken) {
  const Result result =
      NgRun({kModel, kMessage, "--cache.max_tokens=20", "--output=jsonl", kNeverEnds});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(JsonLines(result.out).at(0)["ids"].size(), 20U);
  ExpectError(NgRun({kModel, kMessage, "--cache.max_tokens=8"}), 5,
              {"prompt 8 + max_new_tokens 1 = 9 > 8 cache tokens"});
}

TEST(AnswerLength, ThatCutsSaysHowToGetMore) {
  const auto said = [](const Arguments& arguments) {
    const Result result = NgRun(Arguments{kModel} + arguments + Arguments{kNeverEnds});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  };
  EXPECT_THAT(said({kMessage, "-n", "3"}), EndsWith(", cut after 3 tokens; -n 6 gives more\n"));
  EXPECT_THAT(said({"-p", "Who"}), EndsWith(", cut after 64 tokens; -n 128 gives more\n"));
  EXPECT_THAT(said({kMessage, "-n", "200"}), EndsWith("cut after 200 tokens; -n 248 gives more\n"));
  EXPECT_THAT(said({kMessage, "--cache.max_tokens=20"}),
              EndsWith(", cut after 12 tokens; cache.max_tokens above 20 gives more\n"));
  EXPECT_THAT(said({kMessage}), HasSubstr(", cut after 248 tokens, which fill the context; "));
  EXPECT_THAT(NgRun({kModel, kMessage}).err, Not(HasSubstr("cut after")));
  EXPECT_THAT(said({kMessage, "-n", "0"}), Not(HasSubstr("cut after")));
}

TEST(AnswerLength, OfAConversationIsWhatItLeaves) {
  const Arguments chat = {kModel, "--chat", "--output=jsonl", kNeverEnds, "--cache.max_tokens=60"};
  const Result full = NgRun(chat, "Hello\nHello\n");
  EXPECT_EQ(full.exit_code, 5);
  EXPECT_THAT(full.err, HasSubstr("ng-run: warning: the answer is cut: the context is full"));
  EXPECT_THAT(full.err, HasSubstr("\nng-run: error: the conversation is full"));
  EXPECT_EQ(JsonLines(full.out).at(0)["ids"].size(), 60U);
  const Result drops = NgRun(chat + Arguments{"--run.on_full=drop_turns"}, "Hello\nHello\n");
  EXPECT_EQ(drops.exit_code, 0) << drops.err;
  EXPECT_EQ(JsonLines(drops.out).at(1)["ids"].size(), 60U);
}

TEST(AnswerLength, IsThatOfTheRecordWhereItIsRunAgain) {
  const TempDir temp;
  const std::string record = temp.File("run.json");
  EXPECT_EQ(NgRun({kModel, kMessage, "--record", record}).exit_code, 0);
  const Result again = NgRun({"--replay", record});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(NgRun({"--replay", record, "--run.max_new_tokens=2"}).err,
              HasSubstr("step 2: the end (max_new_tokens), recorded: token"));
}

TEST(Spellings, AreTheKeysInWhatIsShownAndDo) {
  const Result config = NgRun({kModel, "--temp", "0.25", "--min-p=0.1", "--threads", "1", "-s", "7",
                               "--ctx-size", "100", "--print-config"});
  EXPECT_EQ(config.exit_code, 0) << config.err;
  EXPECT_THAT(config.out,
              AllOf(HasSubstr("chain = temperature,top_k,min_p\n"), HasSubstr("min_p.p = 0.1\n"),
                    HasSubstr("temperature.value = 0.25\n"), HasSubstr("threads = 1\n"),
                    HasSubstr("seed = 7\n"), HasSubstr("max_tokens = 100\n")));
  // The config runs the same again.
  const TempDir temp;
  const std::string file = temp.Write("run.ini", config.out);
  const Arguments named = {"--model", kModel, "--temp", "0.25",       "--min-p=0.1", "--threads",
                           "1",       "-s",   "7",      "--ctx-size", "100"};
  EXPECT_EQ(NgRun({"--config", file, kMessage}).out, NgRun(named + Arguments{kMessage}).out);
  EXPECT_THAT(DryRun({"--top-p", "0.5"}), HasSubstr("sampler.top_p.p = 0.5  (command line)\n"));
  const Arguments greedy = {kModel, "-n", "20", kMessage};
  EXPECT_EQ(NgRun(greedy + Arguments{"--temp", "0"}).out,
            NgRun(greedy + Arguments{"--sampler.chain=greedy"}).out);
}

TEST(Spellings, StandBesideTextsAndShortOptions) {
  const Arguments long_ones = {kModel, "--sampler.seed=5", "--run.max_new_tokens=8", kMessage};
  const std::string expected = NgRun(long_ones).out;
  EXPECT_EQ(NgRun({"--seed", "5", kModel, "--n-predict", "8", kMessage}).out, expected);
  EXPECT_EQ(NgRun({"-m", kModel, "-s", "5", "-n8", kMessage}).out, expected);
  EXPECT_EQ(NgRun({"--model", kModel, "--seed=5", "--max_tokens=8", kMessage}).out, expected);
  EXPECT_EQ(NgRun({kModel, "-cnv", "-n", "8", "--seed", "5"}, "Who art thou?\n").out, expected);
  EXPECT_THAT(NgRun({kModel, "-ctk", "bf16", "-sys", "Be brief", "--print-config"}).out,
              AllOf(HasSubstr("codec_k = bf16\n"), HasSubstr("system = Be brief\n")));
}

TEST(Spellings, AreRefusedWhereTheyMeanSomethingElse) {
  ExpectError(NgRun({kModel, "x", "--n-predict", "-2"}), 2, {"-1 is without a limit"});
  ExpectError(NgRun({kModel, "x", "--n-gpu-layers", "99"}), 2, {"the CPU"});
  ExpectError(NgRun({kModel, "x", "-ngl", "99"}), 2, {"the CPU"});
  ExpectError(NgRun({kModel, "x", "--temp", "hot"}), 2,
              {"--temp=hot (sampler.temperature.value): must be a number"});
  ExpectError(NgRun({kModel, "x", "--temp"}), 2, {"--temp needs a value"});
}

TEST(Spellings, AreTakenByEveryProgramThatTakesKeys) {
  const struct {
    const char* program;
    Arguments needs;
  } kPrograms[] = {{"ng-plan", {}},
                   {"ng-bench", {}},
                   {"ng-eval", {"--ids-file", "/no/such"}},
                   {"ng-diff", {"--against", "run.seed=1"}},
                   {"ng-serve", {}}};
  for (const auto& [program, needs] : kPrograms) {
    Command command;
    command.program = program;
    command.arguments = Arguments{"--model", "/no/such", "--temp", "hot"} + needs;
    const Result result = ng::test::Run(command);
    EXPECT_THAT(result.err, HasSubstr("--temp=hot (sampler.temperature.value)")) << program;
    EXPECT_EQ(result.exit_code, 2) << program;
  }
}

}  // namespace
}  // namespace ng::test
