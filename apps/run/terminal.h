// The program's side channel: signals, and what goes to stderr besides errors.
#ifndef NG_APPS_RUN_TERMINAL_H_
#define NG_APPS_RUN_TERMINAL_H_

#include <atomic>
#include <span>
#include <string>

#include "ng/engine.h"

namespace ng::run {

// Installs handlers for SIGINT and SIGTERM: the first one sets the returned flag, the second ends
// the process at once. A closed pipe is no longer a signal.
const std::atomic<bool>* WatchSignals();
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
