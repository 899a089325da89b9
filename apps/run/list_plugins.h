// --list-plugins: every plugin that is found, usable or not.
#ifndef NG_APPS_RUN_LIST_PLUGINS_H_
#define NG_APPS_RUN_LIST_PLUGINS_H_

#include "ng/engine.h"
#include "ng/status.h"

namespace ng::run {

// Kind, name, version, path, summary and options of each to stdout; a broken one with the reason.
// Each is opened in a child process: one that throws, ends the process or does not come back is a
// line of the list. Errors: LimitError where no process can be begun, InterruptedError.
// REQUIRES: no thread but the caller's.
absl::Status ListPlugins(const EngineOptions& options);

}  // namespace ng::run

#endif  // NG_APPS_RUN_LIST_PLUGINS_H_
