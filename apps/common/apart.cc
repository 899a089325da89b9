#include "apps/common/apart.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "apps/common/terminal.h"

namespace ng {
namespace {

using Clock = std::chrono::steady_clock;

// The first byte of what a child says, and the last one.
constexpr char kReturned = 'R';
constexpr char kThrew = 'T';
constexpr char kEnd = '\0';

int listener = -1;  // in the child: the pipe that gets its answer

[[noreturn]] void Finish(char how, std::string_view answer) {
  std::string text(1, how);
  text.append(answer);
  text += kEnd;
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t n = write(listener, rest.data(), rest.size());
    if (n < 0 && errno != EINTR) break;
    rest.remove_prefix(static_cast<size_t>(std::max<ssize_t>(0, n)));
  }
  _exit(0);
}

// Also for an exception that nobody can catch: one that is thrown while a library is opened, or by
// a destructor.
[[noreturn]] void OnChildTerminate() {
  const std::exception_ptr exception = std::current_exception();
  if (exception == nullptr) std::abort();
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    Finish(kThrew, absl::StrCat("throws: ", error.what()));
  } catch (...) {
    Finish(kThrew, "throws an exception of unknown type");
  }
}

// In the child.
[[noreturn]] void Answer(absl::FunctionRef<std::string()> work, bool show_stderr,
                         int out) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(signal, SIG_DFL);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) dup2(null, fd);
  if (!show_stderr) dup2(null, STDERR_FILENO);
  listener = out;
  std::set_terminate(OnChildTerminate);
  Finish(kReturned, work());
}

// Reads what a child says until the end mark, the child's end, or the time limit.
std::string Listen(int in, Clock::time_point end, const std::atomic<bool>& stop) {
  std::string text;
  while (!text.ends_with(kEnd) && !stop) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0 || !WaitForInput(in, static_cast<int>(left))) break;
    char bytes[4096];
    const ssize_t n = read(in, bytes, sizeof(bytes));
    if (n == 0 || (n < 0 && errno != EINTR)) break;
    text.append(bytes, static_cast<size_t>(std::max<ssize_t>(0, n)));
  }
  return text;
}

// How a child ended by itself before `end`; nothing for a child that had to be killed.
std::optional<int> Reap(pid_t child, Clock::time_point end) {
  int status = 0;
  while (Clock::now() < end) {
    if (waitpid(child, &status, WNOHANG) == child) return status;
    usleep(1000);
  }
  kill(child, SIGKILL);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return std::nullopt;
}

std::string Describe(std::optional<int> ended, std::chrono::milliseconds patience) {
  if (!ended) {
    return absl::StrCat("takes more than ",
                        std::chrono::ceil<std::chrono::seconds>(patience).count(), " s");
  }
  if (WIFSIGNALED(*ended)) return absl::StrCat("ends the process: ", strsignal(WTERMSIG(*ended)));
  return absl::StrCat("ends the process with exit code ", WEXITSTATUS(*ended));
}

}  // namespace

absl::StatusOr<ApartResult> RunApart(absl::FunctionRef<std::string()> work,
                                     const ApartOptions& options, const std::atomic<bool>& stop) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return LimitError(absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
  }
  const absl::Cleanup close_in = [&] { close(ends[0]); };
  const pid_t child = fork();
  if (child < 0) {
    close(ends[1]);
    return LimitError(absl::StrCat("cannot begin a process: ", std::strerror(errno)));
  }
  if (child == 0) Answer(work, options.show_stderr, ends[1]);
  close(ends[1]);
  const Clock::time_point end = Clock::now() + options.patience;
  std::string text = Listen(ends[0], end, stop);
  const bool complete = text.ends_with(kEnd);
  const std::optional<int> ended = Reap(child, complete || stop ? Clock::time_point() : end);
  if (stop) return InterruptedError("interrupted while a plugin's code was run");
  if (!complete) return ApartResult{false, Describe(ended, options.patience)};
  text.pop_back();
  return ApartResult{text.front() == kReturned, text.substr(1)};
}

}  // namespace ng
