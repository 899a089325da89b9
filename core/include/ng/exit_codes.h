// The exit codes of the programs, each with what it stands for. A program that embeds the engine
// may use them, too; ng/status.h says which error has which.
#ifndef NG_EXIT_CODES_H_
#define NG_EXIT_CODES_H_

#include <span>
#include <string_view>

#include "absl/status/status.h"

#pragma GCC visibility push(default)
namespace ng {

struct ExitMeaning {
  int code;
  absl::StatusCode status;   // of the errors that end a program with it
  std::string_view meaning;  // "usage, config or prompt"
};

// By their numbers. Thread: any. The table lives as long as the program.
std::span<const ExitMeaning> ExitMeanings();

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_EXIT_CODES_H_
