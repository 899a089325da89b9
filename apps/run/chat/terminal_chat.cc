#include "apps/run/chat/terminal_chat.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/common/terminal.h"
#include "apps/run/chat/commands.h"
#include "apps/run/chat/history_file.h"
#include "apps/run/chat/session.h"

namespace ng::run {
namespace {

size_t Columns() {
  constexpr size_t kUsual = 80;
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 ? kUsual : size.ws_col;
}

ViewStyle StyleOfTerminal() {
  const char* const no_color = std::getenv("NO_COLOR");
  return {.colors = no_color == nullptr || *no_color == '\0',
          .terminal = isatty(STDOUT_FILENO) != 0};
}

void Note(std::string_view line) {
  WriteStyledStderr(absl::StrCat(absl::string_view(line.data(), line.size()), "\n"));
}

// The history of the editor and of its file. What is wrong with the file is said once.
class History {
 public:
  explicit History(LineEditor& editor) : editor_(editor), file_(HistoryFile::DefaultPath()) {
    const absl::StatusOr<std::vector<std::string>> entries = file_.Load();
    if (!entries.ok()) GiveUp(entries.status());
    for (const std::string& entry : entries.value_or(std::vector<std::string>())) {
      editor_.Remember(entry);
    }
  }
  void Add(const std::string& typed) {
    editor_.Remember(typed);
    const absl::Status status = file_.Append(typed);
    if (!status.ok()) GiveUp(status);
  }

 private:
  void GiveUp(const absl::Status& status) {
    file_ = HistoryFile("");
    const std::string text(status.message());
    PrintWarning("ng-run", absl::StrCat("the history is not kept: ", text));
  }

  LineEditor& editor_;
  HistoryFile file_;
};

}  // namespace

absl::Status TerminalChat(Engine& engine, const CommandLine& line, int64_t capacity,
                          const TerminalChatParts& parts) {
  InterruptsOnlyStop interrupts;
  SessionHost host;
  host.answer = [](std::string_view text) { return WriteStyledStdout(text); };
  host.note = Note;
  host.columns = Columns;
  host.take_interrupt = [&] { return interrupts.Take(); };
  host.stop = &parts.stop;
  host.inputs = &parts.inputs;
  host.style = StyleOfTerminal();
  const ViewStyle style = host.style;
  Session session(engine, line, capacity, std::move(host));
  History history(parts.editor);
  parts.editor.set_complete(
      [&](std::string_view before_cursor) { return CompleteCommand(before_cursor, engine); });
  Note(Dim("[/help lists the commands, Ctrl-D ends]", style));
  while (!session.ended()) {
    const Typed typed = parts.editor.Read(session.draft());
    switch (typed.how) {
      case Typed::How::kEnd:
        return absl::OkStatus();
      case Typed::How::kInterrupted:
        interrupts.Take();
        if (parts.stop) return absl::OkStatus();  // another signal
        session.GiveUpDraft();
        if (typed.nothing) Note(Dim("[Ctrl-D or /exit ends]", style));
        continue;
      case Typed::How::kMessage:
        break;
    }
    if (typed.text.empty()) continue;
    history.Add(typed.text);
    NG_RETURN_IF_ERROR(session.Take(typed.text));
  }
  return absl::OkStatus();
}

}  // namespace ng::run
