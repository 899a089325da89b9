#include "apps/common/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/common/terminal_text.h"
#include "ng/files.h"
#include "ng/memory_reserve.h"

namespace ng {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> stop_requested = false;
std::atomic<int> stop_signal = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);
// A pipe that gets a byte when a signal comes. A wait that polls its other end cannot miss the
// signal, whichever thread the signal came to.
int signal_pipe[2] = {-1, -1};

// While InterruptsOnlyStop lives.
std::atomic<bool> interrupts_only_stop = false;

// What TerminalGuard keeps: how the terminal was set, and how it is to be set while the program
// runs. A handler may read the second one while it is changed, so that there are two places for it.
std::atomic<bool> terminal_is_guarded = false;
termios guarded_terminal;
termios terminal_modes[2];
std::atomic<int> terminal_mode = -1;  // of these; -1: as it was

void WriteToTerminal(std::string_view bytes) {
  static_cast<void>(!write(STDERR_FILENO, bytes.data(), bytes.size()));
}

// These four are async-signal-safe.
void RestoreTerminal() {
  if (!terminal_is_guarded) return;
  WriteToTerminal("\033[?2004l");  // pastes are marked no more
  tcsetattr(STDIN_FILENO, TCSADRAIN, &guarded_terminal);
}

// A terminal shows the key of a signal where the cursor is: "^C".
void EndLineOfKey(int signal) {
  termios mode;
  const bool by_key = signal == SIGINT || signal == SIGQUIT;
  if (by_key && tcgetattr(STDERR_FILENO, &mode) == 0 && (mode.c_lflag & ECHO) != 0) {
    WriteToTerminal("\n");
  }
}

// Nothing for a program in the background, which the terminal would stop.
void SetTerminal() {
  const int mode = terminal_mode;
  if (!terminal_is_guarded || mode < 0 || tcgetpgrp(STDIN_FILENO) != getpgrp()) return;
  tcsetattr(STDIN_FILENO, TCSANOW, &terminal_modes[mode]);
  WriteToTerminal("\033[?2004h");
}

void OnStop(int) {
  const int saved_errno = errno;
  RestoreTerminal();
  struct sigaction stops = {};
  stops.sa_handler = SIG_DFL;
  struct sigaction own = {};
  sigaction(SIGTSTP, &stops, &own);
  raise(SIGTSTP);
  sigset_t stop;
  sigset_t before;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &stop, &before);  // it stops here
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  sigaction(SIGTSTP, &own, nullptr);
  SetTerminal();
  errno = saved_errno;
}

int ExitCodeOf(int signal) { return 128 + signal; }

void OnSignal(int signal) {
  const bool only_stops = signal == SIGINT && interrupts_only_stop;
  int none = 0;
  if (signal == SIGQUIT || (!only_stops && !stop_signal.compare_exchange_strong(none, signal))) {
    RestoreTerminal();
    EndLineOfKey(signal);
    RemoveTemporaryFiles();
    _exit(ExitCodeOf(signal));
  }
  stop_requested = true;
  const int saved_errno = errno;
  if (only_stops && terminal_is_guarded) tcflush(STDIN_FILENO, TCIFLUSH);  // typed ahead
  static_cast<void>(!write(signal_pipe[1], "", 1));
  errno = saved_errno;
}

// A signal that was ignored when the program started stays ignored. nohup, and shells that run a
// job in the background, ask for this.
void Watch(int signal) {
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  if (action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

// After a signal, how long to wait in all for a reader that reads nothing.
constexpr std::chrono::milliseconds kGrace(200);

// How long a signal may go unseen while the signal pipe says nothing.
constexpr int kLookAgainMs = 50;

// Waits until `fd` takes bytes, or until a write would say why it does not. Returns false when a
// signal has come and the time to wait is over.
bool WaitForRoom(int fd) {
  pollfd waits[2] = {{fd, POLLOUT, 0}, {signal_pipe[0], POLLIN, 0}};
  while (stop_signal == 0) {
    // An interrupt that only stops what runs leaves its byte in the pipe, which then says nothing
    // of the next signal.
    const bool pipe_is_full = stop_requested;
    const int ready = poll(waits, pipe_is_full ? 1 : 2, pipe_is_full ? kLookAgainMs : -1);
    if (ready < 0 && errno != EINTR) return true;
    if (waits[0].revents != 0) return true;
  }
  static const Clock::time_point end = Clock::now() + kGrace;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    const int ready = poll(waits, 1, std::max(0, static_cast<int>(left.count())));
    if (ready >= 0 || errno != EINTR) return ready != 0;
  }
}

// A write that blocks would delay what a signal asks for, so no write may block. A pipe that has
// room has room for at least this many bytes.
absl::Status Write(int fd, std::string_view bytes) {
  static bool given_up[STDERR_FILENO + 1] = {};  // what follows a gap would be misread
  while (!bytes.empty()) {
    if (given_up[fd] || !WaitForRoom(fd)) {
      given_up[fd] = true;
      return InterruptedError("interrupted while nobody reads what is written");
    }
    const ssize_t n = ::write(fd, bytes.data(), std::min<size_t>(bytes.size(), PIPE_BUF));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0 && errno == EPIPE) return OutputError("");
    if (n < 0) return OutputError(absl::StrCat("stdout: cannot write: ", std::strerror(errno)));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

// Allocates nothing where the bytes are nothing but text: there may be no memory.
absl::Status WriteText(int fd, std::string_view bytes) {
  static const bool is_terminal[STDERR_FILENO + 1] = {
      isatty(STDIN_FILENO) != 0, isatty(STDOUT_FILENO) != 0, isatty(STDERR_FILENO) != 0};
  return is_terminal[fd] && SteersTerminal(bytes) ? Write(fd, TerminalText(bytes))
                                                  : Write(fd, bytes);
}

// KeepSilent was called.
bool silent = false;

Loudness loudness_now = Loudness::kUsual;

std::string WarningLine(std::string_view program, std::string_view text) {
  const absl::string_view name(program.data(), program.size());
  return absl::StrCat(name, ": warning: ", OneLine(text), "\n");
}

// Warnings that nobody has seen yet. They are printed before the first output. A run that fails
// before that says only why.
std::string& HeldWarnings() {
  static std::string lines;
  return lines;
}

void ShowWarnings() {
  const std::string lines = std::exchange(HeldWarnings(), {});
  if (!lines.empty() && !silent) WriteText(STDERR_FILENO, lines).IgnoreError();
}

// The name of the program that runs.
std::string_view running;

// Allocates nothing, because there may be no memory.
void PrintErrorLine(const char* text) {
  char line[256];
  const int n = std::snprintf(line, sizeof(line) - 1, "%.*s: error: %s",
                              static_cast<int>(running.size()), running.data(), text);
  const size_t end = std::min(sizeof(line) - 2, static_cast<size_t>(std::max(0, n)));
  line[end] = '\n';
  WriteStderr({line, end + 1});
}

int FailFor(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::bad_alloc&) {
    PrintErrorLine("out of memory");
    return ExitCode(LimitError(""));
  } catch (const std::exception& error) {
    PrintErrorLine(error.what());
  } catch (...) {
    PrintErrorLine("an exception of unknown type");
  }
  return ExitCode(RuntimeError(""));
}

// Called for an exception that nobody can catch: on a library's thread, or in a destructor.
[[noreturn]] void OnTerminate() {
  const std::exception_ptr exception = std::current_exception();
  if (exception == nullptr) std::abort();
  RestoreTerminal();
  const int code = FailFor(exception);
  RemoveTemporaryFiles();
  _exit(code);
}

}  // namespace

void HoldStandardStreams(ClosedStdin closed_stdin) {
  const int stdin_mode = closed_stdin == ClosedStdin::kIsEmpty ? O_RDONLY : O_WRONLY;
  // The lowest free number is taken first: each open fills the gap just found.
  for (const auto& [fd, mode] : {std::pair{STDIN_FILENO, stdin_mode},
                                 {STDOUT_FILENO, O_RDONLY},
                                 {STDERR_FILENO, O_WRONLY}}) {
    if (fcntl(fd, F_GETFD) < 0) static_cast<void>(open("/dev/null", mode));
  }
}

absl::Status WriteStdout(std::string_view bytes) {
  ShowWarnings();
  return silent ? absl::OkStatus() : WriteText(STDOUT_FILENO, bytes);
}

void WriteStderr(std::string_view bytes) {
  ShowWarnings();
  if (!silent) WriteText(STDERR_FILENO, bytes).IgnoreError();
}

absl::Status WriteStyledStdout(std::string_view bytes) {
  ShowWarnings();
  return silent ? absl::OkStatus() : Write(STDOUT_FILENO, bytes);
}

void WriteStyledStderr(std::string_view bytes) {
  ShowWarnings();
  if (!silent) Write(STDERR_FILENO, bytes).IgnoreError();
}

void KeepSilent() { silent = true; }

bool TerminalTakesEscapes() {
  const char* const kind = std::getenv("TERM");
  return kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

bool TerminalShowsUtf8() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string locale = absl::AsciiStrToUpper(value);
    return locale.find("UTF-8") != locale.npos || locale.find("UTF8") != locale.npos;
  }
  return false;
}

void SetLoudness(Loudness loudness) { loudness_now = loudness; }
Loudness HowLoud() { return loudness_now; }

void PrintError(std::string_view program, const absl::Status& status) {
  const absl::string_view message = status.message();
  if (message.empty() || IsToldElsewhere(status)) return;
  silent = false;
  const absl::string_view name(program.data(), program.size());
  WriteStderr(absl::StrCat(name, ": error: ", OneLine({message.data(), message.size()}), "\n"));
}

void PrintWarning(std::string_view program, std::string_view text) {
  if (HowLoud() != Loudness::kQuiet) WriteStderr(WarningLine(program, text));
}

int Fail(std::string_view program, const absl::Status& status) {
  PrintError(program, status);
  return ExitCode(status);
}

int RunWatched(std::string_view program, EngineOptions options,
               absl::FunctionRef<absl::Status(const EngineOptions&, ProgressBar&)> work) {
  ProgressBar bar(program);
  options.stop = WatchSignals();
  options.progress = [&](const Progress& progress) { bar.Show(progress); };
  std::set<std::string, std::less<>> told;  // several engines may have the same to say
  options.warning = [&](std::string_view text) {
    const bool shown = HowLoud() != Loudness::kQuiet;
    if (shown && told.emplace(text).second) HeldWarnings() += WarningLine(program, text);
  };
  const absl::Status status = work(options, bar);
  bar.Clear();
  const bool stopped = status.ok() || absl::IsCancelled(status);
  if (stopped) ShowWarnings();
  HeldWarnings().clear();
  if (stopped && *options.stop) return SignalExitCode();
  return Fail(program, status);
}

int RunProgram(std::string_view program, int (*main)(int argc, const char* const* argv), int argc,
               const char* const* argv) {
  running = program;
  std::set_terminate(OnTerminate);
  // These are then errors of a write and do not end the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    constexpr size_t kReservedBytes = size_t{1} << 20;
    const MemoryReserve reserve(kReservedBytes, MemoryReserve::For::kUnwinding);
    return main(argc, argv);
  } catch (...) {
    return FailFor(std::current_exception());
  }
}

const std::atomic<bool>* WatchSignals() {
  static_cast<void>(!pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK));
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) Watch(signal);
  return &stop_requested;
}

bool WaitForInput(int fd, int timeout_ms) {
  pollfd waits[2] = {{fd, POLLIN, 0}, {signal_pipe[0], POLLIN, 0}};
  int ready = -1;
  do {
    ready = poll(waits, 2, timeout_ms);
  } while (ready < 0 && errno == EINTR && !stop_requested);
  return ready != 0 && !stop_requested;
}

int SignalPipe() { return signal_pipe[0]; }

InterruptsOnlyStop::InterruptsOnlyStop() { interrupts_only_stop = true; }

InterruptsOnlyStop::~InterruptsOnlyStop() {
  interrupts_only_stop = false;
  Take();
}

bool InterruptsOnlyStop::Take() {
  bool came = false;
  do {
    came |= stop_requested.exchange(false);
    char bytes[16];
    while (read(signal_pipe[0], bytes, sizeof(bytes)) > 0) continue;
  } while (stop_requested);  // one came after the flag was cleared, and its byte is gone
  if (stop_signal == 0) return came;
  // Another signal, which may have come just now, ends the program.
  stop_requested = true;
  static_cast<void>(!write(signal_pipe[1], "", 1));
  return false;
}

TerminalGuard::TerminalGuard() {
  if (terminal_is_guarded || tcgetattr(STDIN_FILENO, &guarded_terminal) != 0) return;
  terminal_mode = -1;
  terminal_is_guarded = guards_ = true;
  struct sigaction action = {};
  sigaction(SIGTSTP, nullptr, &action);
  if (action.sa_handler == SIG_IGN) return;  // as where there is no job control
  action = {};
  action.sa_handler = OnStop;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTSTP, &action, nullptr);
}

TerminalGuard::~TerminalGuard() {
  if (!guards_) return;
  RestoreTerminal();
  terminal_is_guarded = false;
}

const termios& TerminalGuard::before() const { return guarded_terminal; }

void TerminalGuard::Set(const termios& mode) {
  if (!guards_) return;
  const int other = terminal_mode == 0 ? 1 : 0;
  terminal_modes[other] = mode;
  terminal_mode = other;
  SetTerminal();
}

void SetTerminalAgain() { SetTerminal(); }

int SignalExitCode() { return ExitCodeOf(stop_signal); }

ProgressBar::ProgressBar(std::string_view program)
    : program_(program),
      terminal_(isatty(STDERR_FILENO) != 0 && TerminalTakesEscapes() &&
                HowLoud() != Loudness::kQuiet) {}

// A line for a phase that has ended.
void ProgressBar::TellPhase(const Progress& progress) {
  if (HowLoud() != Loudness::kVerbose) return;
  const Clock::time_point now = Clock::now();
  if (progress.phase != told_phase_) began_ = now;
  told_phase_ = progress.phase;
  if (progress.done < progress.total) return;
  const std::chrono::duration<double> took = now - began_;
  Clear();
  WriteStderr(
      absl::StrFormat("%s: %s, %.2f s\n", program_, TerminalText(progress.phase), took.count()));
  told_phase_.clear();
}

void ProgressBar::Show(const Progress& progress) {
  TellPhase(progress);
  if (!terminal_ || progress.total <= 0) return;
  constexpr size_t kMostCells = 30;
  constexpr size_t kBeside = 16;  // columns that the rest takes
  winsize size = {};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const size_t columns = known ? size.ws_col : kMostCells + kBeside;
  const size_t cells = std::min(kMostCells, columns - std::min(columns, kBeside));
  const int64_t percent = 100 * progress.done / progress.total;
  std::string phase = TerminalText(progress.phase);
  if (percent == percent_ && phase_ == phase) return;
  percent_ = percent;
  phase_ = std::move(phase);
  const size_t filled = cells * static_cast<size_t>(percent) / 100;
  const std::string bar = std::string(filled, '#') + std::string(cells - filled, '.');
  WriteStyledStderr(absl::StrCat("\r\033[K", phase_, " [", bar, "] ", percent, " %"));
  shown_ = true;
  if (progress.done >= progress.total) Clear();
}

void ProgressBar::Clear() {
  if (!shown_) return;
  WriteStyledStderr("\r\033[K");
  shown_ = false;
}

}  // namespace ng
