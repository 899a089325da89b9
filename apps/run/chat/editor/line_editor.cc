#include "apps/run/chat/editor/line_editor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/common/screen_text.h"
#include "apps/common/terminal_text.h"
#include "ng/utf8.h"

namespace ng::run {
namespace {

constexpr size_t kPiece = 4096;  // what a terminal holds

// Gets a byte when the screen has another size, or this program is in front again. (A flag would
// not do: the signal may come to a thread that does not wait for keys.)
int screen_pipe[2] = {-1, -1};
constexpr char kResized = 'r';
constexpr char kInFront = 'f';

void OnScreenChanged(int signal) {
  const int saved_errno = errno;
  if (signal == SIGCONT) SetTerminalAgain();
  const char byte = signal == SIGCONT ? kInFront : kResized;
  static_cast<void>(!write(screen_pipe[1], &byte, 1));
  errno = saved_errno;
}

ScreenSize SizeOfScreen() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {size.ws_col, std::max<size_t>(1, size.ws_row)};
}

// What all candidates begin with.
std::string CommonBeginning(const std::vector<std::string>& words) {
  std::string common = words.front();
  for (const std::string& word : words) {
    common.resize(static_cast<size_t>(std::ranges::mismatch(common, word).in1 - common.begin()));
  }
  while (FindInvalidUtf8(common)) common.pop_back();  // cut within a character
  return common;
}

bool HasMore(int timeout_ms) {
  pollfd wait = {STDIN_FILENO, POLLIN, 0};
  return poll(&wait, 1, timeout_ms) > 0;
}

}  // namespace

bool LineEditor::HasTerminal() {
  return isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0 && TerminalTakesEscapes();
}

absl::StatusOr<std::unique_ptr<LineEditor>> LineEditor::Open() {
  std::unique_ptr<LineEditor> editor(new LineEditor);
  termios mode = editor->guard_.before();
  const cc_t interrupt = mode.c_cc[VINTR];
  if (interrupt != _POSIX_VDISABLE) editor->reader_ = KeyReader(static_cast<char>(interrupt));
  // While something else runs, what is typed is neither shown nor taken line by line.
  mode.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN);
  mode.c_lflag |= NOFLSH;
  mode.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | ISTRIP);
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  editor->waiting_ = mode;
  // While a message is edited, Ctrl-C and Ctrl-Z are keys: a signal would overtake what was typed
  // before it.
  mode.c_cc[VINTR] = mode.c_cc[VSUSP] = _POSIX_VDISABLE;
  editor->editing_ = mode;
  if (screen_pipe[0] < 0 && pipe2(screen_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
    return RuntimeError("cannot edit messages at this terminal");
  }
  struct sigaction action = {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = OnScreenChanged;
  sigaction(SIGWINCH, &action, nullptr);
  sigaction(SIGCONT, &action, nullptr);
  editor->guard_.Set(editor->waiting_);
  return editor;
}

void LineEditor::Paint() { WriteStyledStderr(painter_.Paint(editor_.View(), SizeOfScreen())); }

void LineEditor::Finish() { WriteStyledStderr(painter_.Finish(editor_.View(), SizeOfScreen())); }

bool LineEditor::ReadBytes(std::string* bytes) {
  char piece[kPiece];
  const ssize_t n = ::read(STDIN_FILENO, piece, sizeof(piece));
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (n > 0) bytes->append(piece, static_cast<size_t>(n));
  return n > 0;
}

// Of keys that come at once only the last one may send: the others are a paste, and so is a Tab.
void LineEditor::AddKeys(std::string_view bytes, bool at_once) {
  std::vector<Key> keys = reader_.Push(bytes);
  const auto is_enter = [](const Key& key) { return key.kind == KeyKind::kEnter; };
  const bool pasted = at_once && keys.size() > 1 &&
                      std::find_if(keys.begin(), keys.end() - 1, is_enter) != keys.end() - 1;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (pasted && keys[i].kind == KeyKind::kComplete) keys[i] = {KeyKind::kText, "\t"};
    if (pasted && is_enter(keys[i]) && i + 1 < keys.size()) keys[i].kind = KeyKind::kNewLine;
    keys_.push_back(std::move(keys[i]));
  }
}

bool LineEditor::WaitForKeys() {
  pollfd waits[3] = {
      {STDIN_FILENO, POLLIN, 0}, {SignalPipe(), POLLIN, 0}, {screen_pipe[0], POLLIN, 0}};
  if (poll(waits, 3, -1) < 0) return true;
  if (waits[1].revents != 0) {
    ended_ = Typed::How::kInterrupted;
    return false;
  }
  if (waits[2].revents != 0) {
    char changes[64];
    const ssize_t n = ::read(screen_pipe[0], changes, sizeof(changes));
    if (std::find(changes, changes + std::max<ssize_t>(0, n), kInFront) != changes + n) {
      painter_.Forget();
      WriteStyledStderr("\r\033[J");
    }
    Paint();
    return true;
  }
  std::string bytes;
  bool open = ReadBytes(&bytes);
  // A paste of many lines may come in pieces.
  constexpr int kNextPieceMs = 25;
  const auto is_paste = [&] {
    return std::ranges::count(bytes, '\r') + std::ranges::count(bytes, '\n') > 1;
  };
  while (open && (bytes.size() % kPiece == 0 || is_paste()) && HasMore(kNextPieceMs)) {
    open = ReadBytes(&bytes);
  }
  AddKeys(bytes, /*at_once=*/true);
  if (!open && keys_.empty()) ended_ = Typed::How::kEnd;
  return open || !keys_.empty();
}

void LineEditor::CompleteWord() {
  const std::string before(editor_.before_cursor());
  const Completions found = complete_ ? complete_(before) : Completions();
  if (found.words.empty()) return;
  std::string common = CommonBeginning(found.words);
  const bool whole = found.words.size() == 1;
  if (whole && !common.ends_with('/') && !common.ends_with('=')) common += ' ';
  const std::string there = before.substr(found.begin);
  if (common != there && common.starts_with(there)) {
    editor_.Insert(common.substr(there.size()));
    return;
  }
  if (whole) return;
  Finish();
  std::string list;
  for (const std::string& word : found.words) absl::StrAppend(&list, TerminalText(word), "  ");
  WriteStyledStderr(WrappedText(list, SizeOfScreen().columns) + "\n");
}

// The shell writes below what is typed. When this program is in front again it is painted anew.
void LineEditor::Suspend() {
  struct sigaction action = {};
  sigaction(SIGTSTP, nullptr, &action);
  if (action.sa_handler == SIG_IGN) return;  // there is no shell to go to
  Finish();
  kill(0, SIGTSTP);
}

bool LineEditor::TakeKey(const Key& key) {
  switch (editor_.Take(key)) {
    case Outcome::kGoesOn:
      return false;
    case Outcome::kComplete:
      CompleteWord();
      return false;
    case Outcome::kClear:
      WriteStyledStderr("\033[H\033[2J");
      painter_.Forget();
      return false;
    case Outcome::kSuspend:
      Suspend();
      return false;
    case Outcome::kMessage:
      ended_ = Typed::How::kMessage;
      return true;
    case Outcome::kInterrupted:
      ended_ = Typed::How::kInterrupted;
      return true;
    case Outcome::kEnd:
      ended_ = Typed::How::kEnd;
      return true;
  }
  return false;
}

Typed LineEditor::Read(std::string_view text) {
  guard_.Set(editing_);
  std::string typed_ahead;
  while (HasMore(0) && ReadBytes(&typed_ahead)) continue;
  AddKeys(typed_ahead, /*at_once=*/false);
  editor_.Begin(text);
  painter_.Forget();
  Paint();
  bool ended = false;
  while (!ended) {
    while (!ended && !keys_.empty()) {
      const Key key = std::exchange(keys_.front(), {});
      keys_.pop_front();
      ended = TakeKey(key);
    }
    if (ended) break;
    Paint();
    ended = !WaitForKeys();
  }
  Typed typed = {.how = ended_, .text = {}, .nothing = editor_.text().empty()};
  if (typed.how == Typed::How::kMessage) typed.text = editor_.text();
  Finish();
  guard_.Set(waiting_);
  return typed;
}

void LineEditor::DropTypedAhead() {
  keys_.clear();
  const cc_t interrupt = guard_.before().c_cc[VINTR];
  reader_ = interrupt == _POSIX_VDISABLE ? KeyReader() : KeyReader(static_cast<char>(interrupt));
}

}  // namespace ng::run
