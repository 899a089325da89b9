// What every program shares towards its user: standard streams, signals, errors, progress.
#ifndef NG_APPS_COMMON_TERMINAL_H_
#define NG_APPS_COMMON_TERMINAL_H_

#include <termios.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng {

class ProgressBar;

// Opens a stand-in for each standard stream that the caller has closed. Otherwise a file that is
// opened later could get its number, and receive what was meant for it. Writing to a closed stdout
// still fails; a closed stdin is empty, or reading it fails.
enum class ClosedStdin { kIsEmpty, kFails };
void HoldStandardStreams(ClosedStdin closed_stdin = ClosedStdin::kIsEmpty);

// Writes bytes to stdout. To a terminal go those of TerminalText, because the bytes may quote what
// somebody else wrote. After a signal it waits only a moment for a reader that does not read.
// Errors: OutputError; its message is empty when the reader has closed the pipe, because that is no
// fault. InterruptedError when bytes are lost because of a signal; then nothing that follows is
// written.
absl::Status WriteStdout(std::string_view bytes);

// The same to stderr. A failure is ignored, because there is nobody to tell.
void WriteStderr(std::string_view bytes);

// The two for bytes with escape sequences of our own, which go to a terminal as they are. What they
// quote has been through TerminalText.
absl::Status WriteStyledStdout(std::string_view bytes);
void WriteStyledStderr(std::string_view bytes);

// Whether a terminal takes escape sequences (TERM is not dumb), and shows characters beyond ASCII
// (LC_ALL, LC_CTYPE or LANG, the first that is set, says UTF-8).
bool TerminalTakesEscapes();
bool TerminalShowsUtf8();

// What a program says beside what it is asked for and beside errors: nothing; progress on a
// terminal, and warnings; also a line for each phase, with what it took.
enum class Loudness { kQuiet, kUsual, kVerbose };
void SetLoudness(Loudness loudness);
Loudness HowLoud();

// From here on the four above write nothing, and no warning is shown: another process of the same
// run speaks for all (Engine::rank).
void KeepSilent();

// Writes "PROGRAM: error: MESSAGE" to stderr as one line, whatever the message quotes, also from a
// process that keeps silent. Writes nothing for an empty message: then the reader of stdout has
// gone away. Writes nothing for a status that is told elsewhere.
void PrintError(std::string_view program, const absl::Status& status);

// Writes "PROGRAM: warning: TEXT" to stderr as one line.
void PrintWarning(std::string_view program, std::string_view text);

// Prints an error and returns its exit code.
int Fail(std::string_view program, const absl::Status& status);

// Runs `work` with what every program adds to its options. The run stops at a signal. It shows its
// progress in the bar, which is cleared at the end. It prints each warning once, before the first
// output; a run that fails before that says only why. Returns the exit code: that of an error,
// which is also shown, or that of a signal if one came and nothing failed.
int RunWatched(
    std::string_view program, EngineOptions options,
    absl::FunctionRef<absl::Status(const EngineOptions& options, ProgressBar& bar)> work);

// Runs the main function of a program. An exception that leaves it, or that nobody can catch, is an
// error like any other: one line and an exit code. A closed pipe, and a file that has reached its
// size limit, are errors of a write and not signals.
int RunProgram(std::string_view program, int (*main)(int argc, const char* const* argv), int argc,
               const char* const* argv);

// Installs signal handlers, except for a signal that was ignored when the program started. The
// first SIGINT, SIGTERM or SIGHUP sets the returned flag; the second ends the process at once.
// SIGQUIT ends it at once.
const std::atomic<bool>* WatchSignals();
// Waits until `fd` has something to read or has ended. Returns false when a signal comes first, or
// when nothing comes for `timeout_ms` (-1: no limit). REQUIRES: WatchSignals has been called.
bool WaitForInput(int fd, int timeout_ms = -1);
// A descriptor that has something to read once a signal has come, for programs that poll others
// too.
int SignalPipe();
// While one lives, a SIGINT asks only to stop what runs: it sets the flag, however often it comes,
// and drops what has been typed ahead.
class InterruptsOnlyStop {
 public:
  InterruptsOnlyStop();
  ~InterruptsOnlyStop();
  InterruptsOnlyStop(const InterruptsOnlyStop&) = delete;
  InterruptsOnlyStop& operator=(const InterruptsOnlyStop&) = delete;

  // Whether one has come since. Clears the flag, unless another signal ends the program.
  bool Take();
};
// Keeps how the terminal of stdin is set. The destructor sets it so again, and so does whatever
// ends the program at once: a second signal, an exception that nobody catches. So does what stops
// the program, such as Ctrl-Z; when it goes on, Set counts again.
class TerminalGuard {
 public:
  TerminalGuard();
  ~TerminalGuard();
  TerminalGuard(const TerminalGuard&) = delete;
  TerminalGuard& operator=(const TerminalGuard&) = delete;

  // How it was set at the beginning.
  const termios& before() const;
  // Sets it, and asks it to mark what is pasted.
  void Set(const termios& mode);

 private:
  bool guards_ = false;
};
// Sets it as TerminalGuard::Set has, for a handler of SIGCONT. Async-signal-safe.
void SetTerminalAgain();
// 128 and the first signal's number: 130 after SIGINT, 143 after SIGTERM. REQUIRES: the flag is
// set.
int SignalExitCode();

// A bar for phases that take long. It shows nothing unless stderr is a terminal; a program that is
// verbose has a line for each phase.
class ProgressBar {
 public:
  explicit ProgressBar(std::string_view program);
  void Show(const Progress& progress);
  // Removes the bar, so that a line can follow.
  void Clear();

 private:
  void TellPhase(const Progress& progress);

  std::string program_;
  bool terminal_;
  bool shown_ = false;
  std::string phase_;
  std::string told_phase_;  // that goes on
  std::chrono::steady_clock::time_point began_;
  int64_t percent_ = -1;
};

}  // namespace ng

#endif  // NG_APPS_COMMON_TERMINAL_H_
