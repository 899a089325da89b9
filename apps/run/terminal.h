// The program's side channel: signals, and what goes to stderr besides errors.
#ifndef NG_APPS_RUN_TERMINAL_H_
#define NG_APPS_RUN_TERMINAL_H_

#include <atomic>
#include <span>
#include <string>

#include "ng/engine.h"
#include "ng/status.h"

namespace ng::run {

// Fills the places of standard streams that the caller has closed, so that no file opened later
// takes their number and receives what was meant for them. Writing to a closed stdout still fails.
void HoldStandardStreams();

// "ng-run: error: MESSAGE" as one line on stderr, whatever the message quotes; nothing for an empty
// message: the reader of stdout went away.
void PrintError(const absl::Status& status);

// Installs handlers for SIGINT and SIGTERM: the first one sets the returned flag, the second ends
// the process at once. A closed pipe is no longer a signal.
const std::atomic<bool>* WatchSignals();
// Waits until stdin has something to read or has ended; false when a signal came first.
// REQUIRES: WatchSignals has been called.
bool WaitForInput();
// 130 after SIGINT, 143 after SIGTERM. REQUIRES: the flag is set.
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

// "seed 1, eot, prefill 12 tokens at 340.1 tok/s, decode 45 tokens at 512.3 tok/s"
std::string ClosingLine(const Engine& engine, std::span<const Completion> completions);

}  // namespace ng::run

#endif  // NG_APPS_RUN_TERMINAL_H_
