// Runs one program under a fault: its standard streams, limits, signals and injected errors.
#ifndef NG_TESTS_FAULTS_LAUNCH_H_
#define NG_TESTS_FAULTS_LAUNCH_H_

#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/faults/fault_page.h"

namespace ng::faults {

enum class Stream {
  kPipe,    // read as it comes; stdin: written as it is taken
  kClosed,  // no descriptor at all
  kFull,    // /dev/full
  kGone,    // a pipe whose reader has left
  kSlow,    // a pipe that is read a little at a time
  kStuck,   // a pipe that nobody reads until the last signal has been sent for a while
  kFolder,  // a folder, where something is to be read
  kHeld,    // stdin: stays open and silent after the input
};

struct Limit {
  __rlimit_resource resource;
  uint64_t value;
};

struct TimedSignal {
  int64_t after_us;
  int number;
};

struct Launch {
  std::string program;  // its path
  std::vector<std::string> arguments;
  std::string folder;  // the working directory
  std::string input;   // stdin
  Stream in = Stream::kPipe;
  Stream out = Stream::kPipe;
  Stream err = Stream::kPipe;
  std::string plan;  // NG_FAULT; empty: nothing is injected
  std::string faults_library;
  std::string page;  // NG_FAULT_PAGE
  std::vector<Limit> limits;
  uint64_t processes = 0;            // it and its threads may be so many; 0: any number
  std::vector<int> ignored;          // signals that are ignored from the start
  std::vector<TimedSignal> signals;  // in rising time
  double timeout_s = 10;
};

struct Outcome {
  bool timed_out = false;
  int signal = 0;  // that ended it; 0: none
  int code = -1;   // else its exit code
  std::string out;
  std::string err;
  double seconds = 0;
  double after_signal = 0;  // seconds from the first signal to the end; 0: none was sent
  int n_signals = 0;        // that were sent while it ran
  // Of the page.
  bool main_began = false;
  uint64_t handled = 0;
  std::array<uint64_t, kCallKinds> counts{};
  uint64_t n_struck = 0;
  std::string where;
};

// Called from several threads at a time.
Outcome Run(const Launch& launch);

// The shell line that does the same, for a person; limits, signals and streams are left out.
std::string ShellLine(const Launch& launch);

}  // namespace ng::faults

#endif  // NG_TESTS_FAULTS_LAUNCH_H_
