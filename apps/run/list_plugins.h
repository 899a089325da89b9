// --list-plugins: every plugin that is found, usable or not.
#ifndef NG_APPS_RUN_LIST_PLUGINS_H_
#define NG_APPS_RUN_LIST_PLUGINS_H_

#include "ng/engine.h"
#include "ng/status.h"

namespace ng::run {

// Kind, name, version, path, summary and options of each to stdout; a broken one with the reason.
absl::Status ListPlugins(const EngineOptions& options);

}  // namespace ng::run

#endif  // NG_APPS_RUN_LIST_PLUGINS_H_
