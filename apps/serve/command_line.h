// ng-serve's command line: a config and dotted overrides; what it serves is all in them.
#ifndef NG_APPS_SERVE_COMMAND_LINE_H_
#define NG_APPS_SERVE_COMMAND_LINE_H_

#include "apps/common/manual.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::serve {

struct CommandLine {
  EngineOptions engine;
  About about;
  bool dry_run = false;
};

// Errors: UsageError naming the argument, what is allowed and the nearest option.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// What the program says of itself.
Manual TheManual();

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_COMMAND_LINE_H_
