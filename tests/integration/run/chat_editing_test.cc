// The editor of a chat at a terminal: what is typed against a plain model of it, pastes, a window
// that changes its size, signals, Ctrl-Z.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/integration/chat_terminal.h"
#include "tests/support/line_model.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ChatEditing : public ChatTerminal {
 protected:
  void Send(const std::string& bytes) {
    Arguments arguments = {"send-keys", "-H"};
    for (const char byte : bytes) {
      char hex[3];
      std::snprintf(hex, sizeof(hex), "%02x", static_cast<unsigned char>(byte));
      arguments.emplace_back(hex);
    }
    if (!bytes.empty()) Tmux(arguments);
  }
  void Resize(size_t columns, size_t rows) {
    Tmux({"resize-window", "-x", std::to_string(columns), "-y", std::to_string(rows)});
  }

  // Whether the screen has the rows of the model around the cursor.
  bool Shows(const ModelScreen& model, size_t n_rows) {
    const std::string place = Tmux({"display-message", "-p", "#{cursor_x} #{cursor_y}"}).out;
    const std::vector<std::string> at = absl::StrSplit(place, absl::ByAnyChar(" \n"));
    const std::string pane = Tmux({"capture-pane", "-p"}).out;
    const std::vector<std::string> rows = absl::StrSplit(pane, '\n');
    if (std::stoul(at[0]) != model.column) return false;
    const size_t row = std::stoul(at[1]);
    const size_t n = std::min(n_rows, model.rows.size());
    for (size_t first = 0; first + n <= model.rows.size(); ++first) {
      if (model.row < first || model.row >= first + n || row < model.row - first) continue;
      bool same = true;
      for (size_t i = 0; i < n && same; ++i) {
        const size_t at_row = row - (model.row - first) + i;
        same = at_row < rows.size() && Trimmed(rows[at_row]) == Trimmed(model.rows[first + i]);
      }
      if (same) return true;
    }
    return false;
  }

  // Empty where nothing has been written yet.
  std::string History() {
    std::ifstream in(temp_.File("state/ng/history"));
    return {std::istreambuf_iterator<char>(in), {}};
  }

  // Types random keys. Behind each batch of them comes what a terminal and its shell may send
  // besides. At the end the message is sent.
  void TypeAtRandom(uint64_t seed, int n_batches, int n_keys) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    LineModel model;
    size_ = {80, 24};
    n_stops_ = 0;
    See("ends]");
    for (int batch = 0; batch < n_batches; ++batch) {
      std::string bytes;
      for (int i = 0; i < n_keys; ++i) bytes += model.Press(random());
      Send(bytes);
      if (batch % 3 == 2) ResizeAtRandom(random);
      ASSERT_NO_FATAL_FAILURE(ExpectShown(model, batch));
      ASSERT_NO_FATAL_FAILURE(Disturb(random, model, batch));
    }
    Send("\033[1;5Fend");
    Press({"Enter"});
    Resize(80, 24);
    WaitFor("the message", [&] { return History().ends_with('\n'); });
    EXPECT_EQ(History(), absl::StrReplaceAll(model.Text() + "end", {{"\n", "\\n"}}) + "\n");
  }

 private:
  // How the terminal was set, but for its size.
  std::string Settings(const std::string& when) {
    const std::string all = Slurp(temp_.File(when));
    return all.substr(all.find('\n'));
  }

  void ResizeAtRandom(std::mt19937_64& random) {
    size_ = {12 + random() % 80, 4 + random() % 30};
    Resize(size_.first, size_.second);
  }

  void ExpectShown(const LineModel& model, int batch) {
    const size_t columns = size_.first;
    const size_t rows = size_.second;
    const ModelScreen screen = ScreenOf(model, columns);
    std::string wanted;
    for (const std::string& row : screen.rows) wanted += row + "\n";
    WaitFor(absl::StrCat("batch ", batch, ", ", columns, "x", rows, ", row ", screen.row,
                         ", column ", screen.column, "\n", wanted),
            [&] { return Shows(screen, rows); });
  }

  // A signal that comes by itself or by a key, perhaps with another size of the window.
  void Disturb(std::mt19937_64& random, LineModel& model, int batch) {
    const pid_t chat = std::stoi(Slurp(temp_.File("pid")));
    const auto stop = [&] {
      See(absl::StrCat("stopped=", ++n_stops_));
      EXPECT_EQ(Settings("stopped"), Settings("before"));
      if (random() % 2 == 0) ResizeAtRandom(random);
      Press({"Enter"});
    };
    // Not seen where the message is empty.
    const auto interrupt = [&](const std::function<void()>& how) {
      Send(model.Type("x"));
      ASSERT_NO_FATAL_FAILURE(ExpectShown(model, batch));
      how();
      model.Interrupt();
    };
    switch (random() % 10) {
      case 0:
        kill(chat, SIGWINCH);
        break;
      case 1:
        kill(chat, SIGCONT);
        break;
      case 2:
        Send(model.Suspend());
        stop();
        break;
      case 3:
        kill(chat, SIGTSTP);
        stop();
        break;
      case 4:
        interrupt([&] { Press({"C-c"}); });
        break;
      case 5:
        interrupt([&] { kill(chat, SIGINT); });
        break;
      default:
        return;
    }
    if (!HasFatalFailure()) ExpectShown(model, batch);
  }

  static std::string Trimmed(std::string text) {
    text.resize(text.find_last_not_of(' ') + 1);
    return text;
  }

  std::pair<size_t, size_t> size_;  // columns and rows of the window
  int n_stops_ = 0;
};

// NG_CHATS=20 is a long form, of more chats.
TEST_F(ChatEditing, RandomKeysPastesSizesAndSignalsAreWhatThePlainModelSays) {
  const char* const asked = std::getenv("NG_CHATS");
  const int n_chats = asked == nullptr ? 1 : std::atoi(asked);
  for (int seed = 1; seed <= n_chats; ++seed) {
    Start({"--run.max_new_tokens=1"});
    TypeAtRandom(static_cast<uint64_t>(seed), 40, 30);
    ASSERT_FALSE(HasFailure());
    Tmux({"kill-server"});
    std::filesystem::remove_all(temp_.File("state"));
  }
}

TEST_F(ChatEditing, TheSameOnAConsole) {
  Start({"--run.max_new_tokens=1"}, "TERM=linux");
  TypeAtRandom(2, 6, 60);
}

TEST_F(ChatEditing, LinesThatComeAtOnceAreOneMessageWithoutMarksToo) {
  Start({"--run.max_new_tokens=1"});
  See("ends]");
  std::string lines;
  std::string entry;
  for (int i = 1; i <= 50; ++i) {
    absl::StrAppend(&lines, "line ", i, "\n");
    absl::StrAppend(&entry, i == 1 ? "" : "\\n", "line ", i);
  }
  Tmux({"load-buffer", "-"}, lines);
  Tmux({"paste-buffer"});  // not marked; the last end of a line sends it
  See("left", 1);
  EXPECT_EQ(History(), entry + "\n");
  // All of it is there, though it is taller than the screen.
  EXPECT_THAT(Screen(), HasSubstr("> line 1\nline 2\n"));
  EXPECT_THAT(Screen(), HasSubstr("line 49\nline 50\n"));
}

TEST_F(ChatEditing, CtrlZAndFgLeaveTheTerminalAsItWas) {
  Start(Slow());
  See("ends]");
  Type("not sent yet");
  See("> not sent yet");
  Press({"C-z"});
  See("stopped=1");
  EXPECT_EQ(Slurp(temp_.File("stopped")), Slurp(temp_.File("before")));
  Press({"Enter"});
  See("> not sent yet", 2);
  Press({"C-u"});
  Say("Who art thou?");
  See("Clown");
  Press({"C-z"});
  See("stopped=2");
  EXPECT_EQ(Slurp(temp_.File("stopped")), Slurp(temp_.File("before")));
  Press({"Enter"});
  Type("ahead");
  Press({"C-c"});
  EXPECT_THAT(See("[stopped, /more goes on"), Not(HasSubstr("ahead")));
  Say("/exit");
  See("exit=0");
  ExpectTheTerminalAsBefore();
}

TEST_F(ChatEditing, AnAnswerIsBrokenAtWords) {
  const Arguments twenty = {"--run.max_new_tokens=20"};
  const std::string whole = NgRun(Demo() + twenty + Arguments{"--message=Who art thou?"}).out;
  Start(twenty, "", 30);
  See("ends]");
  Say("Who art thou?");
  See("left", 1);
  std::string answer = AnswerTo("> Who art thou?");
  for (const absl::string_view line : absl::StrSplit(answer, '\n')) EXPECT_LE(line.size(), 30U);
  EXPECT_GT(Count(answer, "\n"), 0U);
  EXPECT_EQ(absl::StrReplaceAll(answer, {{"\n", " "}}) + "\n", whole);
}

}  // namespace
}  // namespace ng::test
