// Where every program meets its user: standard streams, signals, errors, progress.
#ifndef NG_APPS_COMMON_TERMINAL_H_
#define NG_APPS_COMMON_TERMINAL_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng {

class ProgressBar;

// Fills the places of standard streams that the caller has closed, so that no file opened later
// takes their number and receives what was meant for them. Writing to a closed stdout still fails.
void HoldStandardStreams();

// Writes bytes to stdout. Once a signal has come, a reader that does not read is not waited for any
// longer than a moment. Errors: OutputError; its message is empty when the reader has closed the
// pipe, which is no reason to complain. InterruptedError when bytes are lost to a signal: nothing
// that is written later goes out.
absl::Status WriteStdout(std::string_view bytes);

// The same to stderr; there is nobody to tell when it fails.
void WriteStderr(std::string_view bytes);

// "PROGRAM: error: MESSAGE" as one line on stderr, whatever the message quotes; nothing for an
// empty message: the reader of stdout went away.
void PrintError(std::string_view program, const absl::Status& status);

// "PROGRAM: warning: TEXT" as one line on stderr.
void PrintWarning(std::string_view program, std::string_view text);

// Prints it; returns its exit code.
int Fail(std::string_view program, const absl::Status& status);

// Runs `work` with what every program adds to its options: they stop at a signal, show
// progress in the bar, which is cleared at the end, and print each warning once, before the first
// output; a run that fails before that says only why. Returns the exit code, a
// signal's where one came and nothing failed; an error is shown, whether or not a signal came too.
int RunWatched(
    std::string_view program, EngineOptions options,
    absl::FunctionRef<absl::Status(const EngineOptions& options, ProgressBar& bar)> work);

// A program's main function. An exception that comes out of it, or that nobody can catch, is an
// error like any other: one line, its exit code. A closed pipe and a file that may grow no more are
// errors of a write and no signals.
int RunProgram(std::string_view program, int (*main)(int argc, const char* const* argv), int argc,
               const char* const* argv);

// Installs handlers, but for a signal that is ignored from the start. SIGINT, SIGTERM and SIGHUP:
// the first one sets the returned flag, the second ends the process at once. SIGQUIT ends it at
// once.
const std::atomic<bool>* WatchSignals();
// Waits until `fd` has something to read or has ended; false when a signal came first, or nothing
// for `timeout_ms` (-1: for ever). REQUIRES: WatchSignals has been called.
bool WaitForInput(int fd, int timeout_ms = -1);
// 128 and the first signal's number: 130 after SIGINT, 143 after SIGTERM. REQUIRES: the flag is
// set.
int SignalExitCode();

// A bar for phases that take a while; nothing at all unless stderr is a terminal.
class ProgressBar {
 public:
  ProgressBar();
  void Show(const Progress& progress);
  // Wipes the bar, so that a line can follow.
  void Clear();

 private:
  bool terminal_;
  bool shown_ = false;
  std::string phase_;
  int64_t percent_ = -1;
};

}  // namespace ng

#endif  // NG_APPS_COMMON_TERMINAL_H_
