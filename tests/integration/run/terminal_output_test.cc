// What a terminal gets of a run whose answer and whose files have control characters, and a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "ng/utf8.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

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
    setenv("NG_HISTORY", "", 1);
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

constexpr int kFirstByte = 7;  // the id of byte 0 in the demo

// The demo, which can only answer with this one byte.
Arguments Answering(char byte) {
  return Demo() + Arguments{"--prompt=To be", "--run.max_new_tokens=3",
                            "--sampler.chain=logit_bias,greedy",
                            absl::StrCat("--sampler.logit_bias.bias=", kFirstByte + byte, "=1000")};
}

TEST(TerminalOutput, AnAnswerSteersNoTerminal) {
  EXPECT_THAT(Seen("ng-run", Answering('\033')), HasSubstr("^[^[^["));
  EXPECT_THAT(Seen("ng-run", Answering('\033')), Not(HasSubstr("\033\033")));
  EXPECT_THAT(NgRun(Answering('\033')).out, HasSubstr("\033\033\033"));
}

constexpr std::array kTerminals = {"xterm-256color", "linux", "dumb"};

// A text at random that has much of what steers a terminal.
std::string Hostile(std::mt19937& random) {
  static constexpr const char* kParts[] = {
      "\033", "[2J", "]0;title", "\a", "\u009B", "\u0090", "\u202E", "\u2066", "\u2069", "\x7F",
      "\r",   "\b",  "\f",       "m",  "31",     "\u65E5", " ",      "\n",     "a",      "\t"};
  std::string text;
  for (size_t n = 1 + random() % 30; n > 0; --n) text += kParts[random() % std::size(kParts)];
  return text;
}

// Whether a terminal got nothing but text, and of sequences only those that ng has for itself.
void ExpectSteersNothing(std::string seen, const std::string& terminal) {
  SCOPED_TRACE(terminal);
  const bool dumb = terminal == "dumb";
  seen = absl::StrReplaceAll(seen, {{"\r\n", "\n"}});
  if (!dumb) {
    seen = absl::StrReplaceAll(seen, {{"\r\033[K", ""},
                                      {"\033[2m", ""},
                                      {"\033[0m", ""},
                                      {"\033[?2004h", ""},
                                      {"\033[?2004l", ""}});
  }
  EXPECT_FALSE(FindInvalidUtf8(seen));
  for (size_t i = 0; i < seen.size(); ++i) {
    const auto byte = static_cast<unsigned char>(seen[i]);
    const bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
    ASSERT_FALSE(control) << "in " << seen.substr(i < 40 ? 0 : i - 40, 80);
  }
  for (const char* const steers :
       {"\u0080", "\u0090", "\u009B", "\u009F", "\u202A", "\u202E", "\u2066", "\u2069"}) {
    ASSERT_EQ(seen.find(steers), seen.npos) << steers;
  }
}

// NG_HOSTILE=3000 is a long form.
int NumHostile() {
  const char* const asked = std::getenv("NG_HOSTILE");
  return asked == nullptr ? 60 : std::atoi(asked);
}

TEST(TerminalOutput, AnswersOfAnyBytesSteerNoTerminal) {
  std::vector<std::string> bytes(256);
  for (int i = 0; i < 256; ++i) bytes[static_cast<size_t>(i)] = std::to_string(kFirstByte + i);
  const TempDir temp;
  std::string prompts;
  for (int i = 0; i < NumHostile(); ++i) {
    absl::StrAppend(&prompts, "{\"prompt_ids\": [", 7 + i % 200, "]}\n");
  }
  const Arguments answering =
      Demo() +
      Arguments{"--prompts",
                temp.Write("prompts", prompts),
                "--run.max_new_tokens=30",
                "--sampler.chain=logit_bias,temperature",
                "--sampler.temperature.value=100",
                absl::StrCat("--sampler.logit_bias.bias=", absl::StrJoin(bytes, "=1e9,"), "=1e9")};
  for (const char* const terminal : kTerminals) {
    const std::string seen = Seen("ng-run", answering, "TERM", terminal);
    ExpectSteersNothing(seen, terminal);
    EXPECT_THAT(seen, HasSubstr("^["));
  }
}

TEST(TerminalOutput, LoadedConversationsSteerNoTerminal) {
  std::mt19937 random(1);
  const TempDir temp;
  for (const char* const terminal : kTerminals) {
    Arguments chat = Demo() + Arguments{"--chat"};
    for (int i = 0; i < NumHostile(); ++i) {
      const Json saved = {{{"role", "user"}, {"content", "?" + Hostile(random)}},
                          {{"role", "assistant"}, {"content", Hostile(random) + "."}}};
      chat.push_back("/load " + temp.Write(absl::StrCat(i), saved.dump()));
    }
    chat.emplace_back("/exit");
    const std::string seen = Seen("ng-run", chat, "TERM", terminal);
    ExpectSteersNothing(seen, terminal);
    EXPECT_THAT(seen, HasSubstr("<U+009B>"));
    EXPECT_THAT(seen, HasSubstr("[loaded 2 messages]"));
  }
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
  const Arguments chat = Demo() + Arguments{"--chat", "-n", "4", "Who art thou?", "/exit"};
  const std::string plain = Seen("ng-run", chat, "TERM", "dumb");
  EXPECT_THAT(plain, Not(HasSubstr("\033")));
  EXPECT_THAT(plain, HasSubstr("\n[cut, /more goes on | context "));
}

}  // namespace
}  // namespace ng::test
