#include "apps/run/chat/terminal_chat.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/common/screen_text.h"
#include "apps/common/terminal.h"
#include "apps/common/terminal_text.h"
#include "apps/run/chat/commands.h"
#include "apps/run/chat/history_file.h"
#include "apps/run/chat/session.h"
#include "ng/plugins.h"

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
          .terminal = isatty(STDOUT_FILENO) != 0,
          .moves = true,
          .columns = Columns};
}

// A text on stderr, with its lines broken at words, perhaps dim.
void Show(std::string_view text, const ViewStyle& dim) {
  WriteStyledStderr(Dim(WrappedText(TerminalText(text), Columns()), dim) + "\n");
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
  host.style = StyleOfTerminal();
  const auto remark = [style = host.style](std::string_view text) { Show(text, style); };
  host.answer = [](std::string_view text) { return WriteStyledStdout(text); };
  host.tell = [](std::string_view text) { Show(text, {}); };
  host.remark = remark;
  host.warning = [=](std::string_view text) {
    remark(absl::StrCat("[", absl::string_view(text.data(), text.size()), "]"));
  };
  host.fault = [](const absl::Status& error) {
    Show("error: " + OneLine(std::string(error.message())), {});
    return absl::OkStatus();
  };
  host.columns = Columns;
  host.take_interrupt = [&] {
    const bool came = interrupts.Take();
    if (came) parts.editor.DropTypedAhead();
    return came;
  };
  host.stop = &parts.stop;
  host.inputs = &parts.inputs;
  host.closing_lines = HowLoud() != Loudness::kQuiet;
  Session session(engine, line, capacity, std::move(host));
  History history(parts.editor);
  NG_ASSIGN_OR_RETURN(const PluginHost plugins, Engine::FindPlugins(line.engine));
  parts.editor.set_complete([&](std::string_view before_cursor) {
    return CompleteCommand(before_cursor, engine, plugins.files());
  });
  if (HowLoud() != Loudness::kQuiet) {
    remark(absl::StrCat("[", session.Summary(), "]"));
    remark("[/help lists the commands, Ctrl-D ends]");
  }
  for (const std::string& message : line.first_messages) {
    Show("> " + message, {});
    history.Add(message);
    NG_RETURN_IF_ERROR(session.Take(message));
  }
  while (!session.ended()) {
    const Typed typed = parts.editor.Read(session.draft());
    switch (typed.how) {
      case Typed::How::kEnd:
        return absl::OkStatus();
      case Typed::How::kInterrupted:
        interrupts.Take();
        if (parts.stop) return absl::OkStatus();  // another signal
        session.GiveUpDraft();
        if (typed.nothing) remark("[Ctrl-D or /exit ends]");
        continue;
      case Typed::How::kMessage:
        break;
    }
    if (IsBlank(typed.text)) continue;
    history.Add(typed.text);
    NG_RETURN_IF_ERROR(session.Take(typed.text));
  }
  return absl::OkStatus();
}

}  // namespace ng::run
