// How the programs are called: a model without an option, a text and what is piped in, nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/integration/chat_terminal.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kDemoModel = NG_SOURCE_DIR "/configs/demo";
constexpr const char* kDemoConfig = NG_SOURCE_DIR "/configs/demo.ini";

Result Other(const std::string& program, const Arguments& arguments,
             const std::string& input = "") {
  Command command;
  command.program = absl::StrCat(NG_BINARY_DIR, "/bin/", program);
  command.arguments = arguments;
  command.input = input;
  return Run(command);
}

TEST(Stdin, StandsBeforeTheTextAndADashSaysWhere) {
  const Arguments call = {kDemoModel, "-n", "6"};
  const auto answer = [&](const std::string& text) { return NgRun(call + Arguments{text}).out; };
  EXPECT_EQ(NgRun(call + Arguments{"Who is it?"}, "A king.\n").out,
            answer("A king.\n\nWho is it?"));
  EXPECT_EQ(NgRun(call + Arguments{"Who is it?", "-"}, "A king.\n").out,
            answer("Who is it?\n\nA king."));
  EXPECT_EQ(NgRun(call + Arguments{"-"}, "A king.\n").out, answer("A king."));
  EXPECT_EQ(NgRun(call, "A king.\n").out, answer("A king."));
  const TempDir temp;
  const std::string file = temp.Write("king.txt", "A king.\n");
  EXPECT_EQ(Shell("\"$NG\" \"$@\" 'Who is it?' < " + file, call).out,
            answer("A king.\n\nWho is it?"));
  EXPECT_EQ(NgRun(call + Arguments{"Who is it?"}, "").out, answer("Who is it?"));
}

TEST(Stdin, OfALoopOfAShellIsTheLoops) {
  const TempDir temp;
  const std::string lines = temp.Write("lines.txt", "Who art thou?\nWhat news?\n");
  const Arguments call = {kDemoModel, "-n", "6"};
  const Result both =
      Shell("while read -r line; do \"$NG\" \"$@\" \"$line\"; done < " + lines, call);
  EXPECT_EQ(both.out, NgRun(call + Arguments{"Who art thou?"}).out +
                          NgRun(call + Arguments{"What news?"}).out);
}

TEST(Stdin, ThatIsOpenAndSilentIsNotReadAndThatIsSaid) {
  const TempDir temp;
  const Arguments call = {kDemoModel, "-n", "6", "Who art thou?"};
  const Result silent = Shell(
      absl::StrCat("mkfifo ", temp.File("f"), "; exec 3<>", temp.File("f"), "; \"$NG\" \"$@\" <&3"),
      call);
  EXPECT_EQ(silent.exit_code, 0);
  EXPECT_EQ(silent.out, NgRun(call).out);
  EXPECT_THAT(silent.err,
              HasSubstr("ng-run: warning: stdin is open and nothing comes, so it is not"));
}

// Where the text is there before the program looks.
TEST(Stdin, ThatNobodyReadsIsSaidOnce) {
  const TempDir temp;
  const std::string file = temp.Write("king.txt", "A king.\n");
  const std::string pipe = temp.File("pipe");
  const auto warnings = [&](const std::string& redirected, const Arguments& what) {
    const Result run = Shell("mkfifo " + pipe + "; exec 3<>" + pipe + "; cat " + file +
                                 " >&3; \"$NG\" \"$@\" " + redirected + "; rm " + pipe,
                             Arguments{kDemoModel, "-n", "2"} + what);
    EXPECT_EQ(run.out, NgRun(Arguments{kDemoModel, "-n", "2"} + what).out);
    return Count(run.err, "warning: stdin is not read, because ");
  };
  const Arguments message = {"--message", "Who is it?"};
  for (const std::string& from : {"< " + file, std::string("<&3")}) {
    EXPECT_EQ(warnings(from, message), 1U);
    EXPECT_EQ(warnings(from, {"--prompt", "To be"}), 1U);
    EXPECT_EQ(warnings(from, {"Who is it?", "What news?"}), 1U);
  }
  EXPECT_EQ(warnings("< " + file, message + Arguments{"-q"}), 0U);
  EXPECT_EQ(warnings("< /dev/null", message), 0U);
  EXPECT_EQ(warnings("< " + file, {"--prompt-file", file}), 0U);
}

TEST(Stdin, HoldsPromptsToo) {
  const Result result = NgRun(Demo() + Arguments{"--prompts", "-", "-n", "2", "--output=jsonl"},
                              "{\"prompt\": \"To be\"}\n{\"prompt\": \"Or\"}\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(JsonLines(result.out).size(), 2U);
}

TEST(WaysIn, NothingShowsAShortUsage) {
  const Result result = NgRun({});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("usage:\n  ng-run MODEL"));
  EXPECT_THAT(result.err, HasSubstr("examples:\n  ng-run "));
}

TEST(WaysIn, AConfigStandsWhereAModelDoesAndTheOtherWayRound) {
  const Arguments text = {"Who art thou?", "-n", "6"};
  const std::string wanted = NgRun(Demo() + text).out;
  EXPECT_EQ(NgRun(Arguments{kDemoConfig} + text).out, wanted);
  EXPECT_EQ(NgRun(Arguments{absl::StrCat("--model.path=", kDemoConfig)} + text).out, wanted);
  EXPECT_EQ(NgRun(Arguments{"--config", kDemoModel, "--sampler.chain=greedy"} + text).out,
            NgRun(Arguments{kDemoModel, "--sampler.chain=greedy"} + text).out);
}

TEST(WaysIn, AChatBeginsWithATextThatIsGiven) {
  const Result result = NgRun({"-c", kDemoModel, "Who art thou?", "-n", "6"}, "What news?\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, NgRun({"-c", kDemoModel, "-n", "6"}, "Who art thou?\nWhat news?\n").out);
}

TEST(WaysIn, OtherProgramsTakeAModelWithoutAnOption) {
  const Result plan = Other("ng-plan", {kDemoModel});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_EQ(Other("ng-plan", {"--config", kDemoConfig}).exit_code, 0);
  EXPECT_EQ(Other("ng-plan", {kDemoConfig}).exit_code, 0);
  // It stops at the context of the model.
  EXPECT_THAT(plan.out, HasSubstr("prefill 192 and decode 64"));
  EXPECT_THAT(plan.out, HasSubstr("\n       256 "));
  EXPECT_THAT(plan.out, Not(HasSubstr("\n       512 ")));
  EXPECT_THAT(plan.out, HasSubstr(" kB\n"));
  EXPECT_EQ(Other("ng-plan", {kDemoModel, "--prompt-tokens=300"}).exit_code, 5);
  EXPECT_EQ(Other("ng-serve", {kDemoModel, "--dry-run"}).exit_code, 0);
  EXPECT_EQ(
      Other("ng-tokenize", {absl::StrCat(kDemoModel, "/tokenizer.model")}, "To be").out,
      Other("ng-tokenize", {absl::StrCat("--tokenizer=", kDemoModel, "/tokenizer.model")}, "To be")
          .out);
  ExpectErrorOf("ng-plan", Other("ng-plan", {kDemoModel, "x"}), 2, {"'x'", "the model is"});
}

TEST(WaysIn, MinusOneIsNoLimitButTheContext) {
  const Arguments endless = {"--run.stop_ids=", "--output=jsonl"};
  for (const Arguments& what : {Arguments{"--prompt=To be"}, Arguments{"Who art thou?"}}) {
    const Result all = NgRun(Demo() + endless + what + Arguments{"-n", "-1"});
    EXPECT_EQ(all.exit_code, 0) << all.err;
    EXPECT_EQ(JsonLines(all.out).at(0)["ids"].size(), 256U);
  }
  const Result chat = NgRun(Demo() + endless + Arguments{"-c", "-n", "-1"}, "Who art thou?\n");
  EXPECT_EQ(JsonLines(chat.out).at(0)["ids"].size(), 256U);
  ExpectError(
      NgRun(Demo() + Arguments{"-n", "-2", "x"}), 2,
      {"run.max_new_tokens = -2, must be 0 or more, auto, or -1: no limit but the context"});
}

class ChatWaysIn : public ChatTerminal {};

TEST_F(ChatWaysIn, AModelAloneOnATerminalIsAChat) {
  way_ = {};
  Start({"--run.max_new_tokens=2"});
  EXPECT_THAT(See("ends]"),
              HasSubstr("[demo | context 256 | temperature 0.9, top_k 50 | seed 1]\n[/help"));
  Say("/bye");
  See("exit=0");
}

TEST_F(ChatWaysIn, AFirstMessageIsAnsweredAndRemembered) {
  Start({"--run.max_new_tokens=2", "Who art thou?"});
  See("> Who art thou?");
  See("left");
  Press({"Up"});
  See("> Who art thou?", 2);
  Press({"C-u"});
  Say("/quit");
  See("exit=0");
}

TEST_F(ChatWaysIn, APipedTextAndAQuestionAreOneMessageAtATerminalToo) {
  const Arguments asks = {"Who art thou?", "--sampler.chain=greedy", "--run.max_new_tokens=8",
                          "--quiet"};
  const std::string answer = NgRun(Demo() + asks, "To be, or not to be.\n").out;
  way_ = {};
  Start(asks, R"(sh -c 'echo "To be, or not to be." | "$0" "$@"')");
  const std::string screen = See("exit=0");
  EXPECT_EQ(screen.substr(0, screen.find("exit=0")), answer);
}

}  // namespace
}  // namespace ng::test
