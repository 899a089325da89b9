// Checks the files that a program is told to write, before anything is computed.
#ifndef NG_APPS_COMMON_OUTPUTS_H_
#define NG_APPS_COMMON_OUTPUTS_H_

#include <span>
#include <string>

#include "core/base/file.h"
#include "ng/status.h"

namespace ng {

struct NamedOutput {
  const char* option;  // "--save"
  std::string path;    // empty: not given
};

// Checks that each file can be written, that none of them is in `inputs`, and that no two of them
// are the same file; stdout and stderr count too. Errors: OutputError for the first, UsageError for
// the others.
absl::Status CheckOutputs(std::span<const NamedOutput> outputs, const InputLog& inputs);

}  // namespace ng

#endif  // NG_APPS_COMMON_OUTPUTS_H_
