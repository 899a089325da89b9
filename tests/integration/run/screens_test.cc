// What fits a screen, what a plain terminal gets, and how much is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/chat_terminal.h"
#include "tests/integration/run_support.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;

Result RunOther(const std::string& program, const Arguments& arguments) {
  Command command;
  command.program = absl::StrCat(NG_BINARY_DIR, "/bin/", program);
  command.arguments = arguments;
  return Run(command);
}

// No line is longer than 80 columns, but for one word.
void ExpectFits(const std::string& text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t first = line.find_first_not_of(' ');
    const bool one_word = first == line.npos || line.find(' ', first) == line.npos;
    EXPECT_TRUE(line.size() <= 80 || one_word) << line;
  }
}

TEST(Screens, HelpAndTablesFitEightyColumns) {
  for (const char* const program : {"ng-run", "ng-serve", "ng-plan", "ng-bench", "ng-eval",
                                    "ng-diff", "ng-tokenize", "ng-pack", "ng-conform"}) {
    SCOPED_TRACE(program);
    const Result help = RunOther(program, {"--help"});
    EXPECT_EQ(help.exit_code, 0);
    ExpectFits(help.out);
    EXPECT_EQ(RunOther(program, {"-h"}).out, help.out);
    EXPECT_THAT(help.out, HasSubstr("-q"));
  }
  if (std::filesystem::exists(NG_BINARY_DIR "/bin/ng-fetch")) {
    ExpectFits(RunOther("ng-fetch", {"--help"}).out);
  }
  ExpectFits(NgRun({"--help", "all"}).out);
  // A shell takes an example as it is shown.
  EXPECT_THAT(RunOther("ng-serve", {"--help"}).out,
              HasSubstr(" -d \\\n      '{\"model\": \"model\", \"messages\": [{\"role\": \"user\", "
                        "\"content\": \"Hi\"}]}'\n"));
}

TEST(Screens, WhatDoesNotFitIsNamedAndWideShowsIt) {
  const Arguments differs =
      Demo() + Arguments{"--message=Who art thou?", "--against", "cache.codec=int8"};
  const Result diff = RunOther("ng-diff", differs);
  EXPECT_EQ(diff.exit_code, 8) << diff.err;
  ExpectFits(diff.out);
  EXPECT_THAT(diff.out, HasSubstr("(--wide shows rows, not compared too)\n"));
  EXPECT_THAT(RunOther("ng-diff", differs + Arguments{"--wide"}).out, HasSubstr(" not compared\n"));
  const Arguments card =
      Demo() + Arguments{"--samples=1", "--window=32", "--card", "--repeat=1", "--depths=0"};
  const Result narrow = RunOther("ng-eval", card);
  EXPECT_EQ(narrow.exit_code, 0) << narrow.err;
  ExpectFits(narrow.out);
  EXPECT_THAT(narrow.out, HasSubstr("(--wide shows perplexity, "));
}

class ScreensInATerminal : public ChatTerminal {};

TEST_F(ScreensInATerminal, NoTableWraps) {
  way_ = {};
  program_ = "ng-diff";
  Start({"--message=Who art thou?", "--against", "cache.codec=int8"});
  const std::string screen = See("exit=8\nended\n");
  EXPECT_THAT(screen, HasSubstr("(--wide shows rows, not compared too)\n"));
  EXPECT_EQ(Count(screen, "\n"), Count(Tmux({"capture-pane", "-p", "-S", "-500"}).out, "\n"));
}

TEST(Screens, ABenchmarkIsATable) {
  const Result bench =
      RunOther("ng-bench", Demo() + Arguments{"--prompt-tokens=16", "--decode-tokens=2",
                                              "--depth=0,8", "--batch=1,2", "--repeat=1"});
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
  ExpectFits(bench.out);
  EXPECT_THAT(bench.out, HasSubstr("threads batch depth prompt  prefill/s of peak  decode/s"));
  std::vector<std::string> lines = absl::StrSplit(bench.out, '\n', absl::SkipEmpty());
  EXPECT_EQ(std::ranges::count_if(lines, [](const std::string& line) { return line[0] == ' '; }),
            4);
}

TEST(Screens, QuietAndVerboseAreOfEveryProgram) {
  const Arguments run = Demo() + Arguments{"--message=Who art thou?", "-n", "2"};
  const Result usual = NgRun(run);
  EXPECT_THAT(usual.err, HasSubstr("seed 1"));
  for (const char* const quiet : {"-q", "--quiet"}) {
    const Result silent = NgRun(run + Arguments{quiet});
    EXPECT_EQ(silent.out, usual.out);
    EXPECT_EQ(silent.err, "");
  }
  EXPECT_THAT(NgRun(run + Arguments{"-v"}).err, HasSubstr("ng-run: load, "));
  EXPECT_EQ(RunOther("ng-plan", Demo() + Arguments{"-q"}).err, "");
  EXPECT_EQ(RunOther("ng-plan", Demo() + Arguments{"-v"}).exit_code, 0);
  EXPECT_EQ(RunOther("ng-serve", Demo() + Arguments{"-q", "--dry-run"}).exit_code, 0);
  EXPECT_THAT(RunOther("ng-eval", Demo() + Arguments{"-v", "--samples=1", "--window=8"}).err,
              HasSubstr("ng-eval: load, "));
  // An error is one however quiet it is.
  ExpectError(NgRun({"-q", "/nowhere", "x"}), 3, {"/nowhere"});
}

TEST(Screens, OneIsNotSeveral) {
  const Result chat = NgRun(Demo() + Arguments{"-c", "-n", "1"}, "Who art thou?\n/stats\n");
  EXPECT_THAT(chat.err, HasSubstr("generated 1 token in 1 run\n"));
}

}  // namespace
}  // namespace ng::test
