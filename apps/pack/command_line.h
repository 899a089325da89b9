// ng-pack's command line: the model, the packed file, and config overrides.
#ifndef NG_APPS_PACK_COMMAND_LINE_H_
#define NG_APPS_PACK_COMMAND_LINE_H_

#include <string>

#include "apps/common/manual.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::pack {

struct CommandLine {
  EngineOptions engine;  // with MODEL as model.path, and with --verify FILE as model.packed
  std::string packed;    // FILE
  bool verify = false;
  About about;
};

// Errors: UsageError naming the argument, what is allowed and the nearest option.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// What the program says of itself.
Manual TheManual();

}  // namespace ng::pack

#endif  // NG_APPS_PACK_COMMAND_LINE_H_
