// The files that a program was told to write, looked at before anything is computed.
#ifndef NG_APPS_COMMON_OUTPUTS_H_
#define NG_APPS_COMMON_OUTPUTS_H_

#include <span>
#include <string>

#include "core/formats/file.h"
#include "ng/status.h"

namespace ng {

struct NamedOutput {
  const char* option;  // "--save"
  std::string path;    // empty: not given
};

// That each of them can be written, that none is one of the files in `inputs`, and that no two,
// stdout and stderr included, are one file. Errors: OutputError; UsageError for the latter two.
absl::Status CheckOutputs(std::span<const NamedOutput> outputs, const InputLog& inputs);

}  // namespace ng

#endif  // NG_APPS_COMMON_OUTPUTS_H_
