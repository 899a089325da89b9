#include "apps/run/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/config/config.h"

namespace ng::run {
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

void PrintError(const absl::Status& status) {
  if (status.message().empty()) return;
  std::string line(status.message());
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7F') c = ' ';
  }
  std::fprintf(stderr, "ng-run: error: %s\n", line.c_str());
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

std::string ClosingLine(const Engine& engine, std::span<const Completion> completions) {
  int64_t prefill_tokens = 0;
  int64_t decode_tokens = 0;
  double prefill_s = 0.0;  // requests run side by side: the slowest one's time counts
  double decode_s = 0.0;
  std::map<std::string_view, int> reasons;
  for (const Completion& completion : completions) {
    prefill_tokens += completion.timings.prefill_tokens;
    decode_tokens += completion.timings.decode_tokens;
    prefill_s = std::max(prefill_s, completion.timings.prefill_s);
    decode_s = std::max(decode_s, completion.timings.decode_s);
    ++reasons[StopReasonName(completion.stop_reason)];
  }
  std::string line = absl::StrCat("seed ", engine.config().Int("sampler.seed"));
  for (const auto& [reason, count] : reasons) {
    absl::StrAppend(&line, ", ", absl::string_view(reason.data(), reason.size()));
    if (completions.size() > 1) absl::StrAppend(&line, " x ", count);
  }
  const auto append_rate = [&](const char* what, int64_t tokens, double seconds) {
    absl::StrAppend(&line, ", ", what, " ", tokens, " tokens");
    if (tokens > 0 && seconds > 0.0) {
      absl::StrAppendFormat(&line, " at %.1f tok/s", static_cast<double>(tokens) / seconds);
    }
  };
  append_rate("prefill", prefill_tokens, prefill_s);
  append_rate("decode", decode_tokens, decode_s);
  return line;
}

}  // namespace ng::run
