// Completion of a program's command line, as a script for a shell.
#ifndef NG_APPS_COMMON_COMPLETION_H_
#define NG_APPS_COMMON_COMPLETION_H_

#include <string>
#include <string_view>
#include <vector>

#include "apps/common/known_parts.h"
#include "apps/common/manual.h"
#include "ng/status.h"

namespace ng {

// One word that a command line may have.
struct CompletedOption {
  std::string name;  // "--config", "-m", "--cache.codec"
  bool is_key;       // its value follows behind '='
  std::string help;  // one line
  ValueWords values;
};

// The options of a program, then the config keys where it takes some.
std::vector<CompletedOption> CompletedOptions(const Manual& manual, const KnownParts& parts);

// The script: what may be typed is in it, and only files are looked up. `shell` is bash, zsh or
// fish. Errors: UsageError for another one.
absl::StatusOr<std::string> CompletionScript(const Manual& manual, const KnownParts& parts,
                                             std::string_view shell);

}  // namespace ng

#endif  // NG_APPS_COMMON_COMPLETION_H_
