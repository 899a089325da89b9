// Whether a shared library is all there.
//
// dlopen maps segments without asking whether the file reaches that far; reading the missing pages
// of a truncated library then kills the process with SIGBUS. The loader asks here first. [load]
#ifndef NG_CORE_PLUGIN_ELF_EXTENT_H_
#define NG_CORE_PLUGIN_ELF_EXTENT_H_

#include <string>

#include "ng/status.h"

namespace ng {

// OK when every segment of the file at `path` lies within the file, and when the file is not a
// 64-bit ELF file at all: saying what else is wrong with it is left to dlopen.
// Errors: PluginError, not naming the path.
absl::Status CheckElfExtent(const std::string& path);

}  // namespace ng

#endif  // NG_CORE_PLUGIN_ELF_EXTENT_H_
