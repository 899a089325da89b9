// The command line of ng-tokenize.
#ifndef NG_APPS_TOKENIZE_COMMAND_LINE_H_
#define NG_APPS_TOKENIZE_COMMAND_LINE_H_

#include <string>

#include "ng/status.h"

namespace ng::tokenize {

struct CommandLine {
  enum class Action { kPrintIds, kEncodeLines, kDecodeLines, kVersion, kHelp };  // rising
  Action action = Action::kPrintIds;
  std::string tokenizer;
};

// Errors: UsageError.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// How the program is called, with all of its options.
std::string UsageText();

}  // namespace ng::tokenize

#endif  // NG_APPS_TOKENIZE_COMMAND_LINE_H_
