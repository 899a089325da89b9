// ng-fetch's command line: the model, and what of it.
#ifndef NG_APPS_FETCH_COMMAND_LINE_H_
#define NG_APPS_FETCH_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "apps/common/manual.h"
#include "ng/status.h"

namespace ng::fetch {

struct CommandLine {
  std::string repository;  // "ORG/NAME"
  std::string revision;    // "main" where none is named
  std::string tag;         // which GGUF file; empty: not said
  std::vector<std::string> include;
  int connections = 0;
  int tries = 0;  // after a failure that may pass
  bool dry_run = false;
  bool ask = false;
  About about;
};

// Errors: UsageError naming the argument, what is allowed and the nearest option.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// What the program says of itself.
Manual TheManual();

}  // namespace ng::fetch

#endif  // NG_APPS_FETCH_COMMAND_LINE_H_
