// ng-diff's command line.
#ifndef NG_APPS_DIFF_COMMAND_LINE_H_
#define NG_APPS_DIFF_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "apps/common/manual.h"
#include "apps/common/prompt_options.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::diff {

struct CommandLine : PromptOptions {
  EngineOptions engine;  // A
  About about;
  bool jsonl = false;
  bool by_position = false;  // of jsonl: the figures of each row too
  bool wide = false;         // all columns of tables
  int top = 3;               // positions that are shown
  // What A is compared with; one of them is given.
  std::vector<std::string> against;        // "section.key=value": A with these changes
  std::string against_config;              // empty: not given
  std::string against_tensors;             // empty: not given
  std::vector<std::string> defaults = {};  // of both sides, for what they do not say
};

// Errors: UsageError naming the argument, what is allowed and the nearest option.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// What the program says of itself.
Manual TheManual();

}  // namespace ng::diff

#endif  // NG_APPS_DIFF_COMMAND_LINE_H_
