#include "apps/run/list_plugins.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "apps/common/terminal.h"
#include "ng/plugins.h"

namespace ng::run {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience(3);  // for one plugin
constexpr char kEnd = '\0';                   // the last byte of what a child says

std::string Unusable(const PluginFile& file, std::string_view why) {
  return absl::StrCat(file.kind, " ", file.name, "  unusable: ", OneLine(why), "\n");
}

std::string Opening(const PluginFile& file, std::string_view what) {
  return Unusable(file, absl::StrCat("plugin ", file.path, ": opening it ", OneLine(what)));
}

// What the list says about a plugin. This runs the plugin's code.
std::string Entry(PluginHost& host, const PluginFile& file) {
  const absl::StatusOr<LoadedPlugin> plugin = host.Load(file.kind, file.name);
  if (!plugin.ok()) return Unusable(file, std::string(plugin.status().message()));
  const PluginDescriptor& descriptor = *plugin->descriptor;
  const std::string text = absl::StrCat(file.kind, " ", file.name, " ", descriptor.version, "  ",
                                        descriptor.summary, "\n    ", plugin->path, "\n");
  return text + OptionHelp(*plugin);
}

// In the child: the plugin that is listed, and the pipe that gets its entry.
const PluginFile* listed = nullptr;
int listener = -1;

[[noreturn]] void Finish(std::string text) {
  text += kEnd;
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t n = write(listener, rest.data(), rest.size());
    if (n < 0 && errno != EINTR) break;
    rest.remove_prefix(static_cast<size_t>(std::max<ssize_t>(0, n)));
  }
  _exit(0);
}

// An exception that is thrown while a library is opened passes through the loader and cannot be
// caught.
[[noreturn]] void OnTerminate() {
  const std::exception_ptr exception = std::current_exception();
  if (exception == nullptr) std::abort();
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    Finish(Opening(*listed, absl::StrCat("throws: ", error.what())));
  } catch (...) {
    Finish(Opening(*listed, "throws an exception of unknown type"));
  }
}

// In the child: writes the entry. Everything else that the plugin prints is dropped.
[[noreturn]] void Say(PluginHost& host, const PluginFile& file, int out) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(signal, SIG_DFL);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  listed = &file;
  listener = out;
  std::set_terminate(OnTerminate);
  Finish(Entry(host, file));
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

// The entry of a plugin that is opened in a process of its own. The list must not end, wait or
// change because of what a plugin does when it is opened.
absl::StatusOr<std::string> EntryApart(PluginHost& host, const PluginFile& file,
                                       const std::atomic<bool>& stop) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return LimitError(absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
  }
  const absl::Cleanup close_in = [&] { close(ends[0]); };
  absl::Cleanup close_out = [&] { close(ends[1]); };
  const pid_t child = fork();
  if (child < 0) {
    return LimitError(
        absl::StrCat("cannot begin a process to open a plugin in: ", std::strerror(errno)));
  }
  if (child == 0) Say(host, file, ends[1]);
  std::move(close_out).Invoke();
  const Clock::time_point end = Clock::now() + kPatience;
  std::string text = Listen(ends[0], end, stop);
  const bool complete = text.ends_with(kEnd);
  const std::optional<int> ended = Reap(child, complete || stop ? Clock::time_point() : end);
  if (stop) return InterruptedError("interrupted while a plugin was opened");
  if (complete) {
    text.pop_back();
    return text;
  }
  if (!ended) return Opening(file, absl::StrCat("takes more than ", kPatience.count(), " s"));
  if (WIFSIGNALED(*ended)) {
    return Opening(file, absl::StrCat("ends the process: ", strsignal(WTERMSIG(*ended))));
  }
  return Opening(file, absl::StrCat("ends the process with exit code ", WEXITSTATUS(*ended)));
}

}  // namespace

absl::Status ListPlugins(const EngineOptions& options) {
  NG_ASSIGN_OR_RETURN(PluginHost host, Engine::FindPlugins(options));
  std::string text;
  for (const PluginFile& file : host.files()) {
    NG_ASSIGN_OR_RETURN(const std::string entry, EntryApart(host, file, *options.stop));
    text += entry;
  }
  return WriteStdout(text);
}

}  // namespace ng::run
