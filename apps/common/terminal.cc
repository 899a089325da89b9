#include "apps/common/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/formats/memory_reserve.h"

namespace ng {
namespace {

std::atomic<bool> stop_requested = false;
volatile std::sig_atomic_t stop_signal = 0;
static_assert(std::atomic<bool>::is_always_lock_free);
// A byte is written when a signal comes: a wait that polls the other end cannot miss it, whichever
// thread it came to.
int signal_pipe[2] = {-1, -1};

int ExitCodeOf(int signal) { return 128 + signal; }

void OnSignal(int signal) {
  if (stop_requested.exchange(true)) _exit(ExitCodeOf(signal));
  stop_signal = signal;
  const int saved_errno = errno;
  static_cast<void>(!write(signal_pipe[1], "", 1));
  errno = saved_errno;
}

}  // namespace

void HoldStandardStreams() {
  // The lowest free number is taken first: each open fills the gap just found.
  for (const auto& [fd, mode] :
       {std::pair{STDIN_FILENO, O_RDONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_WRONLY}}) {
    if (fcntl(fd, F_GETFD) < 0) static_cast<void>(open("/dev/null", mode));
  }
}

absl::Status WriteStdout(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) return OutputError("");
    if (n < 0) return OutputError(absl::StrCat("stdout: cannot write: ", std::strerror(errno)));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

void PrintError(std::string_view program, const absl::Status& status) {
  if (status.message().empty()) return;
  std::fprintf(stderr, "%.*s: error: %s\n", static_cast<int>(program.size()), program.data(),
               OneLine(std::string(status.message())).c_str());
}

void PrintWarning(std::string_view program, std::string_view text) {
  std::fprintf(stderr, "%.*s: warning: %s\n", static_cast<int>(program.size()), program.data(),
               OneLine(text).c_str());
}

int Fail(std::string_view program, const absl::Status& status) {
  PrintError(program, status);
  return ExitCode(status);
}

int RunWatched(std::string_view program, EngineOptions options,
               absl::FunctionRef<absl::Status(const EngineOptions&, ProgressBar&)> work) {
  ProgressBar bar;
  options.stop = WatchSignals();
  options.progress = [&](const Progress& progress) { bar.Show(progress); };
  options.warning = [&](std::string_view text) {
    bar.Clear();
    PrintWarning(program, text);
  };
  const absl::Status status = work(options, bar);
  bar.Clear();
  if (status.ok() || status.code() == absl::StatusCode::kCancelled) {
    return *options.stop ? SignalExitCode() : ExitCode(status);
  }
  return Fail(program, status);
}

int RunProgram(std::string_view program, int (*main)(int argc, const char* const* argv), int argc,
               const char* const* argv) {
  try {
    constexpr size_t kReservedBytes = size_t{1} << 20;
    const MemoryReserve reserve(kReservedBytes, MemoryReserve::For::kUnwinding);
    return main(argc, argv);
  } catch (const std::bad_alloc&) {
    return Fail(program, LimitError("out of memory"));
  } catch (const std::exception& error) {
    return Fail(program, RuntimeError(error.what()));
  }
}

const std::atomic<bool>* WatchSignals() {
  static_cast<void>(!pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK));
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return &stop_requested;
}

bool WaitForInput() {
  pollfd waits[2] = {{STDIN_FILENO, POLLIN, 0}, {signal_pipe[0], POLLIN, 0}};
  while (!stop_requested && poll(waits, 2, -1) < 0 && errno == EINTR) {
  }
  return !stop_requested;
}

int SignalExitCode() { return ExitCodeOf(stop_signal); }

ProgressBar::ProgressBar() : terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressBar::Show(const Progress& progress) {
  if (!terminal_ || progress.total <= 0) return;
  constexpr int kCells = 30;
  const int64_t percent = 100 * progress.done / progress.total;
  if (percent == percent_ && phase_ == progress.phase) return;
  percent_ = percent;
  phase_ = std::string(progress.phase);
  const auto filled = static_cast<size_t>(kCells * percent / 100);
  const std::string bar = std::string(filled, '#') + std::string(kCells - filled, '.');
  std::fprintf(stderr, "\r\033[K%s [%s] %d %%", phase_.c_str(), bar.c_str(),
               static_cast<int>(percent));
  shown_ = true;
  if (progress.done >= progress.total) Clear();
}

void ProgressBar::Clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace ng
