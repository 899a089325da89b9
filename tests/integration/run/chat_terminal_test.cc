// ng-run --chat at a terminal, which tmux is: what is typed, and what is seen of it.
//
// Every wait is for a text on the screen, so that a slow machine changes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

size_t Count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

// A chat in a terminal of its own.
class ChatTerminal : public ::testing::Test {
 protected:
  ~ChatTerminal() override { Tmux({"kill-server"}); }

  // Starts the demo. Above and below, the shell says how the terminal is set.
  void Start(const Arguments& more = {}, const std::string& environment = "", int columns = 80) {
    socket_ += "x";  // a server that is killed may take a moment to go
    std::string command = absl::StrCat("echo $$ > ", temp_.File("pid"), "; exec env ", environment,
                                       " ", NG_BINARY_DIR, "/bin/ng-run");
    for (const std::string& argument : Demo() + Arguments{"--chat"} + more) {
      absl::StrAppend(&command, " '", argument, "'");
    }
    const std::string chat = temp_.Write("chat.sh", command + "\n");
    const std::string script =
        temp_.Write("run.sh", absl::StrCat("trap : INT\nstty -a > ", temp_.File("before"), "\nsh ",
                                           chat, "\necho exit=$?\nstty -a > ", temp_.File("after"),
                                           "\necho ended\nexec cat\n"));
    const Result started =
        Tmux({"new-session", "-d", "-x", std::to_string(columns), "-y", "24", "sh " + script});
    ASSERT_EQ(started.exit_code, 0) << started.err << " (the tests need tmux)";
  }

  Result Tmux(const Arguments& arguments, const std::string& input = "") {
    Command command;
    command.program = "/usr/bin/tmux";
    command.arguments = Arguments{"-u", "-f", "/dev/null", "-S", socket_} + arguments;
    command.environment = {"XDG_STATE_HOME=" + temp_.File("state"), "NO_COLOR=1",
                           "HOME=" + temp_.path()};
    command.input = input;
    return test::Run(command);
  }

  void Type(const std::string& text) { Tmux({"send-keys", "-l", text}); }
  void Press(const Arguments& keys) { Tmux(Arguments{"send-keys"} + keys); }
  void Say(const std::string& text) {
    Type(text);
    Press({"Enter"});
  }
  void Paste(const std::string& text) {
    Tmux({"load-buffer", "-"}, text);
    Tmux({"paste-buffer", "-p"});
  }

  // All that has been shown, a line that wraps as one.
  std::string Screen() { return Tmux({"capture-pane", "-p", "-J", "-S", "-500"}).out; }
  // Waits until the screen has the text so many times; returns the screen.
  std::string See(const std::string& text, size_t times = 1) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::string screen = Screen();
    while (Count(screen, text) < times) {
      if (std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << "waits for " << times << " x '" << text << "' in:\n" << screen;
        return screen;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(15));
      screen = Screen();
    }
    return screen;
  }
  // The text between the n-th time that `begin` is seen and the line below an answer.
  std::string AnswerTo(const std::string& begin) {
    const std::string screen = Screen();
    const size_t at = screen.rfind(begin);
    if (at == screen.npos) return "";
    const size_t from = screen.find('\n', at) + 1;
    return screen.substr(from, screen.find("\n[", from) - from);
  }
  void ExpectTheTerminalAsBefore() {
    See("ended");
    EXPECT_EQ(Slurp(temp_.File("before")), Slurp(temp_.File("after")));
  }

  TempDir temp_;
  std::string socket_ = temp_.File("tmux");
};

TEST_F(ChatTerminal, EditsWithArrowsInUtf8AndRemembersWhatWasTyped) {
  Start({"--run.max_new_tokens=4"});
  See("ends]");
  Type("Wer bist 日本ü?");
  Press({"Left", "Left", "BSpace", "BSpace"});
  Type("語");
  Press({"End", "Enter"});
  See("left");
  Say("second");
  See("left", 2);
  Press({"Up", "Up"});
  EXPECT_THAT(See("> Wer bist 語ü?", 2), HasSubstr("> Wer bist 語ü?"));
  Press({"Down"});
  See("> second", 2);
  Press({"C-c"});  // drops the line
  Say("/exit");
  See("exit=0");
  ExpectTheTerminalAsBefore();
  EXPECT_EQ(Slurp(temp_.File("state/ng/history")), "Wer bist 語ü?\nsecond\n/exit\n");
}

TEST_F(ChatTerminal, AnEarlierChatIsRememberedAndTheFileMayBeOff) {
  std::filesystem::create_directories(temp_.File("state/ng"));
  temp_.Write("state/ng/history", "from before\\nin two lines\n");
  Start();
  See("ends]");
  Press({"Up"});
  See("from before\nin two lines");
  Press({"C-c"});
  Say("/exit");
  See("exit=0");
  Tmux({"kill-server"});
  Start({"--run.max_new_tokens=2"}, "NG_HISTORY=/dev/full");
  See("ends]");
  Say("one");
  See("left");
  Say("two");
  EXPECT_EQ(Count(See("left", 2), "the history is not kept: /dev/full"), 1U);
}

TEST_F(ChatTerminal, FiftyPastedLinesAreOneMessage) {
  Start({"--run.max_new_tokens=2", "--run.system=x"});
  See("ends]");
  std::string lines;
  for (int i = 1; i <= 50; ++i) absl::StrAppend(&lines, i, "\n");
  Paste(lines);
  See("\n50");
  EXPECT_EQ(Count(Screen(), "left"), 0U);  // nothing is sent before Enter
  Press({"Enter"});
  See("left");
  Type("in two\\");
  Press({"Enter"});
  Say("lines");
  See("left", 2);
  const std::string file = temp_.File("c.json");
  Say("/save " + file);
  See("[saved 4 messages]");
  lines.pop_back();
  const Json saved = Json::parse(Slurp(file));
  EXPECT_EQ(saved["messages"][1]["content"], lines);
  EXPECT_EQ(saved["messages"][3]["content"], "in two\nlines");
}

// A run that takes long: nothing is kept, and the kernels are the plain ones.
const Arguments& Slow() {
  static const Arguments* const slow =
      new Arguments{"--run.use_cache=false", "--run.isa=scalar",
                    "--run.stop_ids=", "--attention.name=reference", "--run.max_new_tokens=240"};
  return *slow;
}

TEST_F(ChatTerminal, CtrlCStopsTheAnswerAndKeepsTheConversation) {
  Start(Slow());
  See("ends]");
  Say("Who art thou?");
  See("Clown");
  Type("typed meanwhile");
  Press({"C-c"});
  std::string screen = See("[stopped, /more goes on");
  screen = See("> typed meanwhile");
  EXPECT_EQ(Count(screen, "typed meanwhile"), 1U);  // not within the answer
  Press({"C-c"});
  Say("/stats");
  See("messages 2, answers 1");
  Press({"C-c"});
  See("[Ctrl-D or /exit ends]");
  Say("/set run.max_new_tokens=2");
  See("[run.max_new_tokens = 2]");
  Say("/more");
  See("[cut, /more goes on");
  Say("/stats");
  See("messages 2, answers 1", 2);
  Press({"C-d"});
  See("exit=0");
  ExpectTheTerminalAsBefore();
}

TEST_F(ChatTerminal, ASignalEndsItAndTheTerminalIsAsBefore) {
  for (const auto& [signal, code] : {std::pair(SIGTERM, "143"), std::pair(SIGHUP, "129")}) {
    Start(Slow());
    See("ends]");
    if (signal == SIGTERM) {
      Say("Who art thou?");
      See("Clown");
    }
    kill(std::stoi(Slurp(temp_.File("pid"))), signal);
    See(absl::StrCat("exit=", code));
    ExpectTheTerminalAsBefore();
    Tmux({"kill-server"});
  }
}

TEST_F(ChatTerminal, FullContextIsToldAndTheOldestTurnsCanGo) {
  Start({"--run.max_new_tokens=100", "--run.stop_ids="});
  See("ends]");
  Say("one");
  See("[cut", 1);
  Say("two");
  See("[cut", 2);
  Say("three");
  See("error: the conversation is full, /new begins another");
  Say("/set run.on_full=drop_turns");
  See("[run.on_full = drop_turns]");
  Say("three");
  See("[cut", 3);
  EXPECT_THAT(Screen(), HasSubstr("the oldest 2 messages of the conversation are left out]"));
}

TEST_F(ChatTerminal, RegenTakesTheNextSeedAndSaveAndLoadGiveTheSameConversation) {
  Start({"--run.max_new_tokens=20"});
  See("ends]");
  Say("Who art thou?");
  See("left", 1);
  const std::string first = AnswerTo("> Who art thou?");
  Say("/regen");
  See("left", 2);
  const std::string second = AnswerTo("> /regen");
  Say("/regen 1");
  See("left", 3);
  EXPECT_EQ(AnswerTo("> /regen 1"), first);
  EXPECT_NE(second, first);
  Say("/regen 2");
  See("left", 4);
  EXPECT_EQ(AnswerTo("> /regen 2"), second);
  const std::string file = temp_.File("talk.json");
  Type("/save " + temp_.File("ta"));
  Say("lk.json");
  See("[saved 2 messages]");
  Say("What news?");
  See("left", 5);
  const std::string next = AnswerTo("> What news?");
  Press({"C-d"});
  See("ended");
  Tmux({"kill-server"});

  Start({"--run.max_new_tokens=20"});
  Type("/load " + temp_.File("ta"));  // while the model loads
  Press({"Tab"});
  See("talk.json ");
  Press({"Enter"});
  EXPECT_THAT(See("[loaded 2 messages]"), HasSubstr("> Who art thou?\n" + second));
  Say("What news?");
  See("left", 1);
  EXPECT_EQ(AnswerTo("> What news?"), next);
}

TEST_F(ChatTerminal, CommandsAreToldOnANarrowScreenToo) {
  Start({"--run.max_new_tokens=2"}, "", 30);
  See("ends]");
  Say("/helo");
  See("did you mean /help");
  Type("/he");
  Press({"Tab"});
  Press({"Enter"});
  See("/regen [SEED]");
  Say("/edit");
  See("error: there is no message to change");
  Say("Who art thou, wanderer 日本語 in the night?");
  See("left");
  Say("/edit");
  See("> Who art thou, wanderer", 2);
  Press({"C-c"});
  Say("/exit");
  See("exit=0");
}

// Scripts that have a terminal as stdin but not as stderr keep what they have.
TEST_F(ChatTerminal, WithoutATerminalToDrawOnItReadsPlainLines) {
  Start({"--run.max_new_tokens=2"}, "TERM=dumb");
  See("> ");
  Say("/help");
  EXPECT_THAT(See("> ", 2), Not(HasSubstr("/regen")));
  Press({"C-d"});
  See("exit=0");
}

}  // namespace
}  // namespace ng::test
