#include "apps/run/chat/line_editor.h"

#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "apps/common/terminal.h"
#include "ng/utf8.h"

namespace ng::run {
namespace {

constexpr int kHistoryEntries = 1000;
constexpr std::wstring_view kPasteEnd = L"\033[201~";
// A key that no keyboard has: it puts the text in that a message begins with.
constexpr const wchar_t* kBeginKey = L"\033[9;9~";

// UTF-8 of what libedit holds, which are code points.
std::string Narrow(std::wstring_view text) {
  std::string bytes;
  for (const wchar_t wide : text) AppendUtf8(static_cast<char32_t>(wide), &bytes);
  return bytes;
}

// How many bytes the character has that begins with `lead`.
size_t CharacterSize(unsigned char lead) {
  return lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// The code points of a text; U+FFFD for what is not UTF-8.
std::wstring Widen(std::string_view text) {
  const std::string valid = ReplaceInvalidUtf8(text);
  std::wstring wide;
  for (size_t i = 0; i < valid.size();) {
    const auto lead = static_cast<unsigned char>(valid[i]);
    const size_t size = CharacterSize(lead);
    uint32_t c = size == 1 ? lead : lead & (0xFFU >> (size + 1));
    for (size_t k = 1; k < size; ++k) {
      c = (c << 6) | (static_cast<unsigned char>(valid[i + k]) & 0x3F);
    }
    wide += static_cast<wchar_t>(c);
    i += size;
  }
  return wide;
}

// Gets a byte when the screen has another size, or this program is in front again. (A flag would
// not do: the signal may come to a thread that does not wait for keys.)
int screen_pipe[2] = {-1, -1};

void OnScreenChanged(int) {
  const int saved_errno = errno;
  static_cast<void>(!write(screen_pipe[1], "", 1));
  errno = saved_errno;
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

}  // namespace

struct LineEditor::State {
  TerminalGuard guard;
  FILE* out = nullptr;
  EditLine* line = nullptr;
  HistoryW* history = nullptr;
  Complete complete;
  std::string pending;              // bytes that have been typed and not read
  std::wstring begin;               // what kBeginKey puts in
  const wchar_t* prompt = L"> ";    // of the line that is read
  std::optional<Typed::How> ended;  // why the last read of a character failed
  bool nothing = false;             // had been typed by then
  wchar_t interrupt_key = L'\003';

  ~State();

  static State& Of(EditLine* line);
  // Reads bytes until there is one. False: `ended` says why.
  bool WaitForBytes();
  // The terminal may be set in another way by now.
  void DrawAgain();
  // What EL_GETCFN asks for: 1, or -1.
  int GetCharacter(wchar_t* c);
  bool Init();
  void Bind();
  unsigned char CompleteLine();
  unsigned char Paste();
  // One line. Nothing: `ended` says why.
  std::optional<std::wstring> ReadLine();
};

LineEditor::State::~State() {
  if (line != nullptr) el_end(line);
  if (history != nullptr) history_wend(history);
  if (out != nullptr) std::fclose(out);
}

LineEditor::State& LineEditor::State::Of(EditLine* line) {
  void* data = nullptr;
  el_wget(line, EL_CLIENTDATA, &data);
  return *static_cast<State*>(data);
}

bool LineEditor::State::WaitForBytes() {
  while (pending.empty()) {
    pollfd waits[3] = {
        {STDIN_FILENO, POLLIN, 0}, {SignalPipe(), POLLIN, 0}, {screen_pipe[0], POLLIN, 0}};
    if (poll(waits, 3, -1) < 0 && errno == EINTR) continue;
    if (waits[1].revents != 0) {
      ended = Typed::How::kInterrupted;
      return false;
    }
    char bytes[4096];
    if (waits[2].revents != 0) {
      static_cast<void>(!::read(screen_pipe[0], bytes, sizeof(bytes)));
      DrawAgain();
      continue;
    }
    const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof(bytes));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) {
      ended = Typed::How::kEnd;
      return false;
    }
    pending.append(bytes, static_cast<size_t>(n));
  }
  return true;
}

void LineEditor::State::DrawAgain() {
  el_wset(line, EL_PREP_TERM, 0);
  el_wset(line, EL_PREP_TERM, 1);
  el_resize(line);
  WriteStyledStderr("\r\033[J");  // libedit draws where the cursor is
  el_wset(line, EL_REFRESH);
}

int LineEditor::State::GetCharacter(wchar_t* c) {
  const auto fail = [&] {
    const LineInfoW* const typed = el_wline(line);
    nothing = typed->lastchar == typed->buffer;
    return -1;
  };
  if (!WaitForBytes()) return fail();
  std::string bytes;
  const size_t size = CharacterSize(static_cast<unsigned char>(pending.front()));
  do {
    bytes += pending.front();
    pending.erase(0, 1);
    if (bytes.size() == size) break;
    if (!WaitForBytes()) return fail();
  } while ((static_cast<unsigned char>(pending.front()) & 0xC0) == 0x80);
  *c = Widen(bytes).front();
  if (*c == interrupt_key) {
    ended = Typed::How::kInterrupted;
    return fail();
  }
  return 1;
}

bool LineEditor::State::Init() {
  // libedit draws and measures characters by the locale; ng's texts are UTF-8 in all of them.
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
  // Of its own, since stderr writes every character by itself.
  const int fd = dup(STDERR_FILENO);
  out = fd < 0 ? nullptr : fdopen(fd, "w");
  if (out == nullptr) return false;
  line = el_init_fd("ng-run", stdin, out, out, STDIN_FILENO, fd, fd);
  history = history_winit();
  if (line == nullptr || history == nullptr) return false;
  HistEventW event;
  history_w(history, &event, H_SETSIZE, kHistoryEntries);
  history_w(history, &event, H_SETUNIQUE, 1);
  el_wset(line, EL_CLIENTDATA, this);
  el_wset(line, EL_HIST, history_w, history);
  el_wset(line, EL_EDITOR, L"emacs");
  el_wset(line, EL_SIGNAL, 0);
  // Between two lines, what is typed is neither shown nor taken line by line, and Ctrl-C drops none
  // of it.
  el_wset(line, EL_SETTY, L"-x", L"-echo", L"-icanon", L"+noflsh", nullptr);
  // While a line is edited, Ctrl-C is a key: a signal would overtake what was typed before it.
  el_wset(line, EL_SETTY, L"-d", L"+noflsh", L"intr=", nullptr);
  termios terminal;
  if (tcgetattr(STDIN_FILENO, &terminal) == 0 && terminal.c_cc[VINTR] != _POSIX_VDISABLE) {
    interrupt_key = static_cast<wchar_t>(terminal.c_cc[VINTR]);
  }
  el_wset(
      line, EL_PROMPT, +[](EditLine* line) { return const_cast<wchar_t*>(Of(line).prompt); });
  el_wset(
      line, EL_GETCFN, +[](EditLine* line, wchar_t* c) { return Of(line).GetCharacter(c); });
  Bind();
  el_source(line, nullptr);
  if (pipe2(screen_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  struct sigaction action = {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = OnScreenChanged;
  sigaction(SIGWINCH, &action, nullptr);
  sigaction(SIGCONT, &action, nullptr);
  return true;
}

void LineEditor::State::Bind() {
  using Function = unsigned char (*)(EditLine*, wint_t);
  const Function complete = [](EditLine* line, wint_t) { return Of(line).CompleteLine(); };
  const Function paste = [](EditLine* line, wint_t) { return Of(line).Paste(); };
  const Function begin = [](EditLine* line, wint_t) -> unsigned char {
    el_winsertstr(line, Of(line).begin.c_str());
    return CC_REFRESH;
  };
  const Function new_line = [](EditLine* line, wint_t) -> unsigned char {
    el_winsertstr(line, L"\n");
    return CC_REFRESH;
  };
  const std::pair<const wchar_t*, Function> functions[] = {{L"ng-complete", complete},
                                                           {L"ng-paste", paste},
                                                           {L"ng-begin", begin},
                                                           {L"ng-new-line", new_line}};
  for (const auto& [name, function] : functions) {
    el_wset(line, EL_ADDFN, name, L"of ng-run", function);
  }
  const std::pair<const wchar_t*, const wchar_t*> keys[] = {{L"\t", L"ng-complete"},
                                                            {L"\033[200~", L"ng-paste"},
                                                            {kBeginKey, L"ng-begin"},
                                                            {L"\033\n", L"ng-new-line"},
                                                            {L"\033\r", L"ng-new-line"},
                                                            {L"^R", L"em-inc-search-prev"},
                                                            {L"\033[1;5D", L"ed-prev-word"},
                                                            {L"\033[1;5C", L"em-next-word"},
                                                            {L"\033[H", L"ed-move-to-beg"},
                                                            {L"\033[F", L"ed-move-to-end"},
                                                            {L"\033[1~", L"ed-move-to-beg"},
                                                            {L"\033[4~", L"ed-move-to-end"},
                                                            {L"\033[3~", L"ed-delete-next-char"}};
  for (const auto& [key, function] : keys) el_wset(line, EL_BIND, key, function, nullptr);
}

unsigned char LineEditor::State::CompleteLine() {
  const LineInfoW* const typed = el_wline(line);
  const std::string before = Narrow({typed->buffer, typed->cursor});
  const Completions found = complete ? complete(before) : Completions();
  if (found.words.empty()) return CC_REFRESH_BEEP;
  std::string common = CommonBeginning(found.words);
  const bool whole = found.words.size() == 1;
  if (whole && !common.ends_with('/') && !common.ends_with('=')) common += ' ';
  const std::string there = before.substr(found.begin);
  if (common != there && common.starts_with(there)) {
    el_winsertstr(line, Widen(common.substr(there.size())).c_str());
    return CC_REFRESH;
  }
  if (whole) return CC_REFRESH_BEEP;
  std::string list = "\n";
  for (const std::string& word : found.words) list += word + "  ";
  std::fprintf(out, "%s\n", list.c_str());
  return CC_REDISPLAY;
}

unsigned char LineEditor::State::Paste() {
  std::wstring text;
  wchar_t c = 0;
  while (!text.ends_with(kPasteEnd)) {
    if (el_wgetc(line, &c) != 1) return CC_NORM;  // the next read of a character says it again
    text += c;
  }
  text.resize(text.size() - kPasteEnd.size());
  // Line ends of any kind.
  for (size_t at = 0; (at = text.find(L'\r', at)) != text.npos;) {
    text.replace(at, text.substr(at, 2) == L"\r\n" ? 2 : 1, L"\n");
  }
  std::erase(text, L'\0');
  if (text.ends_with(L'\n')) text.pop_back();  // whole lines were copied
  el_winsertstr(line, text.c_str());
  return CC_REFRESH;
}

std::optional<std::wstring> LineEditor::State::ReadLine() {
  constexpr std::string_view kPasteOn = "\033[?2004h";
  constexpr std::string_view kPasteOff = "\033[?2004l";
  ended.reset();
  WriteStyledStderr(kPasteOn);
  int n = 0;
  const wchar_t* const read = el_wgets(line, &n);
  std::optional<std::wstring> text;
  if (read != nullptr) text.emplace(read, static_cast<size_t>(n));
  WriteStyledStderr(kPasteOff);
  if (!text) return text;
  if (text->ends_with(L'\n')) text->pop_back();
  return text;
}

bool LineEditor::HasTerminal() {
  const char* const kind = std::getenv("TERM");
  return isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0 && kind != nullptr &&
         *kind != '\0' && std::string_view(kind) != "dumb";
}

absl::StatusOr<std::unique_ptr<LineEditor>> LineEditor::Open() {
  auto state = std::make_unique<State>();
  if (!state->Init()) return RuntimeError("cannot edit lines at this terminal");
  return std::unique_ptr<LineEditor>(new LineEditor(std::move(state)));
}

LineEditor::LineEditor(std::unique_ptr<State> state) : state_(std::move(state)) {}
LineEditor::~LineEditor() = default;

void LineEditor::set_complete(Complete complete) { state_->complete = std::move(complete); }

void LineEditor::Remember(const std::string& entry) {
  HistEventW event;
  history_w(state_->history, &event, H_ENTER, Widen(entry).c_str());
}

Typed LineEditor::Read(std::string_view text) {
  State& state = *state_;
  state.begin = Widen(text);
  if (!text.empty()) el_wpush(state.line, kBeginKey);
  state.prompt = L"> ";
  std::wstring message;
  for (;;) {
    const std::optional<std::wstring> read = state.ReadLine();
    if (!read) {
      WriteStderr("\n");
      Typed typed;
      typed.how = state.ended.value_or(Typed::How::kEnd);
      typed.nothing = state.nothing && message.empty();
      return typed;
    }
    message += *read;
    if (!message.ends_with(L'\\')) break;
    message.back() = L'\n';
    state.prompt = L". ";
  }
  return {.how = Typed::How::kMessage, .text = Narrow(message)};
}

}  // namespace ng::run
