// What the user asks of ng-conform.
#ifndef NG_APPS_CONFORM_COMMAND_LINE_H_
#define NG_APPS_CONFORM_COMMAND_LINE_H_

#include <chrono>
#include <string>
#include <vector>

#include "apps/common/manual.h"
#include "apps/conform/checks.h"
#include "ng/isa.h"
#include "ng/status.h"

namespace ng::conform {

// What comes before all checks: whether the plugin can be loaded.
inline constexpr char kLoad[] = "load";

struct CommandLine {
  Request request;
  std::vector<IsaLevel> levels;
  std::vector<std::string> cases;    // empty: all
  std::vector<std::string> profile;  // --profile and --rule, as they were given
  std::chrono::seconds deadline{60};
  bool jsonl = false;
  bool list = false;
  About about;
};

// Errors: UsageError; PluginError for a file name that is no plugin's.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// What the program says of itself.
Manual TheManual();

// The command that runs one check alone, as this command line would.
std::string CommandFor(const CommandLine& line, IsaLevel isa, const std::string& check);

}  // namespace ng::conform

#endif  // NG_APPS_CONFORM_COMMAND_LINE_H_
