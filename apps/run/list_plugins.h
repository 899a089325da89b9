// --list-plugins: every plugin that is found, usable or not.
#ifndef NG_APPS_RUN_LIST_PLUGINS_H_
#define NG_APPS_RUN_LIST_PLUGINS_H_

#include "ng/engine.h"
#include "ng/status.h"

namespace ng::run {

// Writes kind, name, version, path, summary and options of each plugin to stdout; for a broken
// plugin the reason. Each plugin is opened in a child process, so one that throws, ends the process
// or never returns is a line of the list too. Errors: LimitError when no process can be started;
// InterruptedError. REQUIRES: the caller's thread is the only one.
absl::Status ListPlugins(const EngineOptions& options);

}  // namespace ng::run

#endif  // NG_APPS_RUN_LIST_PLUGINS_H_
