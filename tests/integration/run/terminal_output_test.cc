// What a terminal gets of a run whose answer and whose files have control characters, and a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/run_support.h"

namespace ng::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

// All that a program writes to a terminal that is its stdout and stderr, with a variable of its
// environment.
std::string Seen(const std::string& program, Arguments arguments, const char* variable = "TERM",
                 const char* value = "xterm-256color") {
  std::vector<char*> argv;
  std::string path = absl::StrCat(NG_BINARY_DIR, "/bin/", program);
  argv.push_back(path.data());
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm-256color", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    setenv(variable, value, 1);
    execv(path.c_str(), argv.data());
    _exit(127);
  }
  std::string seen;
  char bytes[4096];
  for (ssize_t n = 0; (n = read(terminal, bytes, sizeof(bytes))) > 0;) {
    seen.append(bytes, static_cast<size_t>(n));
  }
  close(terminal);
  waitpid(child, nullptr, 0);
  return seen;
}

// The demo, which can only answer with this one byte.
Arguments Answering(char byte) {
  constexpr int kFirstByte = 7;  // the id of byte 0
  return Demo() + Arguments{"--prompt=To be", "--run.max_new_tokens=3",
                            "--sampler.chain=logit_bias,greedy",
                            absl::StrCat("--sampler.logit_bias.bias=", kFirstByte + byte, "=1000")};
}

TEST(TerminalOutput, AnAnswerSteersNoTerminal) {
  EXPECT_THAT(Seen("ng-run", Answering('\033')), HasSubstr("^[^[^["));
  EXPECT_THAT(Seen("ng-run", Answering('\033')), Not(HasSubstr("\033\033")));
  EXPECT_THAT(NgRun(Answering('\033')).out, HasSubstr("\033\033\033"));
}

TEST(TerminalOutput, NamesOfFilesSteerNoTerminal) {
  const std::string seen =
      Seen("ng-run", {"--model.path=/nowhere/\033]0;title\a\xC2\x9B", "hello"});
  EXPECT_THAT(seen, HasSubstr("<U+009B>"));
  EXPECT_THAT(seen, Not(AnyOf(HasSubstr("\033"), HasSubstr("\a"))));
}

TEST(TerminalOutput, APlainTerminalGetsNoEscapesAndNoHalfBlocks) {
  const Arguments view = Demo() + Arguments{"--message=Who art thou?", "-n", "4", "--view", "-"};
  constexpr const char* kHalfBlock = "\u2580";
  const std::string colored = Seen("ng-run", view);
  EXPECT_THAT(colored, HasSubstr("\033["));
  EXPECT_THAT(colored, HasSubstr(kHalfBlock));
  const std::string dumb = Seen("ng-run", view, "TERM", "dumb");
  EXPECT_THAT(dumb, Not(AnyOf(HasSubstr("\033"), HasSubstr(kHalfBlock))));
  EXPECT_THAT(dumb, HasSubstr("\" .:-=+*#%@\""));
  EXPECT_THAT(Seen("ng-run", view, "LC_ALL", "C"), Not(HasSubstr(kHalfBlock)));
}

}  // namespace
}  // namespace ng::test
