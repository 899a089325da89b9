// The command line of ng-tokenize.
#ifndef NG_APPS_TOKENIZE_ARGUMENTS_H_
#define NG_APPS_TOKENIZE_ARGUMENTS_H_

#include <span>
#include <string>

#include "ng/status.h"

namespace ng {

struct Arguments {
  enum class Action { kPrintIds, kEncodeLines, kDecodeLines, kVersion, kHelp };  // rising
  Action action = Action::kPrintIds;
  std::string tokenizer;
};

// `arguments` without the program's name. Errors: UsageError.
absl::StatusOr<Arguments> ParseArguments(std::span<const char* const> arguments);

std::string HelpText();

}  // namespace ng

#endif  // NG_APPS_TOKENIZE_ARGUMENTS_H_
