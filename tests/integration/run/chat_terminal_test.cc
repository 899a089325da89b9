// ng-run --chat at a terminal: what is typed, and what is seen of it.
#include "tests/integration/chat_terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;

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
  See("in two\\");
  Press({"Enter"});
  // Two ends of lines that come at once are a paste, which keeps its backslashes.
  WaitFor("the backslash to go", [&] { return Count(Screen(), "in two\\") == 0; });
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

TEST_F(ChatTerminal, CtrlCStopsTheAnswerAndKeepsTheConversation) {
  Start(Slow());
  See("ends]");
  Say("Who art thou?");
  See("Clown");
  Type("typed meanwhile");
  Press({"C-c"});
  See("[stopped, /more goes on");
  Say("/stats");  // what was typed ahead is dropped
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
  See("[cut, the context is full, /new or /set run.on_full=drop_turns |");
  Say("four");
  See("error: the conversation is full, /new begins another");
  Say("/undo");
  See("[taken back: three]");
  Say("/set run.on_full drop_turns");
  See("[run.on_full = drop_turns]");
  Say("three");
  See("[cut", 4);
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
  See("[loaded 2 messages]\n> Who art thou?\n" + second);
  Say("What news?");
  See("left", 1);
  EXPECT_EQ(AnswerTo("> What news?"), next);
}

TEST_F(ChatTerminal, CommandsAreToldOnANarrowScreenToo) {
  Start({"--run.max_new_tokens=2"}, "", 30);
  See("ends]");
  Say("/helo");
  See("you mean /help");
  Type("/he");
  Press({"Tab"});
  Press({"Enter"});
  See("/regen, /retry [SEED]");
  Say("/edit");
  See("error: there is no message to\nchange");
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
  See("[/help lists the commands, /exit or Ctrl-D ends]\n> ");
  Say("/help");
  See("/regen, /retry [SEED]");
  Say("Who art thou?");
  EXPECT_THAT(See("left"), HasSubstr("\n[cut, /more goes on | context "));
  Say("/BYE");
  See("exit=0");
}

}  // namespace
}  // namespace ng::test
