// ng-serve's command line: a config and dotted overrides; what it serves is all in them.
#ifndef NG_APPS_SERVE_COMMAND_LINE_H_
#define NG_APPS_SERVE_COMMAND_LINE_H_

#include <string>

#include "ng/engine.h"
#include "ng/status.h"

namespace ng::serve {

struct CommandLine {
  EngineOptions engine;
  bool help = false;
  bool version = false;
};

// Errors: UsageError naming the argument, what is allowed and the nearest option.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// How the program is called, with all of its own options.
std::string UsageText();

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_COMMAND_LINE_H_
