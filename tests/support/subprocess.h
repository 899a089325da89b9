// Runs a program of the build and keeps what it says.
#ifndef NG_TESTS_SUPPORT_SUBPROCESS_H_
#define NG_TESTS_SUPPORT_SUBPROCESS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ng::test {

struct Result {
  int exit_code = -1;  // 128 + N when signal N ended it
  std::string out;
  std::string err;
  int64_t peak_bytes = 0;  // of memory, as the kernel counts it
};

struct Command {
  std::string program;  // absolute, or a name in the build's bin/
  std::vector<std::string> arguments;
  std::string input;                     // stdin
  bool hold_stdin = false;               // stdin stays open after the input
  std::vector<std::string> environment;  // "NAME=value", added to this process's own
  // Opened for writing as the program's stdout instead of a pipe, when not empty.
  std::string stdout_file;
  int signal = 0;  // sent once stderr or stdout holds signal_after bytes
  size_t signal_after = 0;
  int next_signal = 0;  // sent right after the first one
};

Result Run(const Command& command);

}  // namespace ng::test

#endif  // NG_TESTS_SUPPORT_SUBPROCESS_H_
