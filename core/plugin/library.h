// A plugin library as a file: opening it, and where this installation keeps its own.
// The only place that knows Boost.DLL. [load]
#ifndef NG_CORE_PLUGIN_LIBRARY_H_
#define NG_CORE_PLUGIN_LIBRARY_H_

#include <string>

#include "ng/plugin.h"
#include "ng/status.h"

namespace ng {

// Opens the library at `path` (absolute) and returns its `ng_plugin`, unchecked. Each real path is
// opened once per process and stays mapped for ever; what its initialisers did to the calling
// thread's floating-point control (MXCSR) is undone. Thread-safe.
// Errors: PluginError, beginning with the path; LimitError without memory for it.
absl::StatusOr<const PluginDescriptor*> OpenPluginLibrary(const std::string& path);

// ng/plugins beside the libng_core.so that this code runs in, whether or not it exists: the same
// rule finds the plugins of a build tree, an install, a moved install and an embedding program.
// Errors: RuntimeError when the library's own file is gone.
absl::StatusOr<std::string> OwnPluginDirectory();

}  // namespace ng

#endif  // NG_CORE_PLUGIN_LIBRARY_H_
