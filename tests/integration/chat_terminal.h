// A chat in a terminal, which tmux is: what is typed, and what is seen of it.
//
// Every wait is for what the screen shows, so that a slow machine changes nothing.
#ifndef NG_TESTS_INTEGRATION_CHAT_TERMINAL_H_
#define NG_TESTS_INTEGRATION_CHAT_TERMINAL_H_

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/integration/run_support.h"
#include "tests/support/temp_dir.h"

namespace ng::test {

inline size_t Count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

// A chat in a terminal of its own.
class ChatTerminal : public ::testing::Test {
 protected:
  ~ChatTerminal() override { Tmux({"kill-server"}); }

  // Starts the demo. Above and below, and where it is stopped, the shell says how the terminal is
  // set; a stopped one goes on with Enter.
  void Start(const Arguments& more = {}, const std::string& environment = "", int columns = 80) {
    socket_ += "x";  // a server that is killed may take a moment to go
    std::string command = absl::StrCat("echo $$ > ", temp_.File("pid"), "; exec env ", environment,
                                       " ", NG_BINARY_DIR, "/bin/", program_);
    for (const std::string& argument : Demo() + way_ + more) {
      absl::StrAppend(&command, " '", argument, "'");
    }
    const std::string chat = temp_.Write("chat.sh", command + "\n");
    const std::string script = temp_.Write(
        "run.sh",
        absl::StrCat("trap : INT\nstty -a > ", temp_.File("before"), "\nset -m\nsh ", chat,
                     "\ncode=$?\nn=0\nwhile [ $code = 148 ]; do\n  n=$((n+1))\n  stty -a > ",
                     temp_.File("stopped"),
                     "\n  echo stopped=$n\n  read x\n  fg >/dev/null\n  code=$?\ndone\n"
                     "echo exit=$code\nstty -a > ",
                     temp_.File("after"), "\necho ended\nexec cat\n"));
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
  // Waits until `seen` is true of the screen.
  void WaitFor(const std::string& what, const std::function<bool()>& seen) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!seen()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "waits for " << what << " in:\n"
                                                       << Screen();
      std::this_thread::sleep_for(std::chrono::milliseconds(15));
    }
  }
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
  std::string program_ = "ng-run";
  Arguments way_ = {"--chat"};  // into it
  std::string socket_ = temp_.File("tmux");
};

// A run that takes long: nothing is kept, and the kernels are the plain ones.
inline const Arguments& Slow() {
  static const Arguments* const slow =
      new Arguments{"--run.use_cache=false", "--run.isa=scalar",
                    "--run.stop_ids=", "--attention.name=reference", "--run.max_new_tokens=240"};
  return *slow;
}

}  // namespace ng::test

#endif  // NG_TESTS_INTEGRATION_CHAT_TERMINAL_H_
