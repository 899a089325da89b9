// The command line of ng-tokenize.
#ifndef NG_APPS_TOKENIZE_COMMAND_LINE_H_
#define NG_APPS_TOKENIZE_COMMAND_LINE_H_

#include <string>

#include "apps/common/manual.h"
#include "ng/chat_template.h"
#include "ng/status.h"

namespace ng::tokenize {

struct CommandLine {
  // Rising: of several, the last one here counts.
  enum class Action { kPrintIds, kEncodeLines, kDecodeLines, kChat, kCalls };
  Action action = Action::kPrintIds;
  About about;
  std::string tokenizer;
  std::string chat;  // the file of a conversation
  bool render = false;
  bool calls = false;
  std::string tools;  // a file; empty: none
  ChatOptions template_options;
};

// Errors: UsageError.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// What the program says of itself.
Manual TheManual();

}  // namespace ng::tokenize

#endif  // NG_APPS_TOKENIZE_COMMAND_LINE_H_
