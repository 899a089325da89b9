// --list-models: the models of this machine that have names.
#ifndef NG_APPS_RUN_LIST_MODELS_H_
#define NG_APPS_RUN_LIST_MODELS_H_

#include "ng/engine.h"
#include "ng/status.h"

namespace ng::run {

// Writes a line for each to stdout, broken ones too: its name, where it was found, family, type,
// size, and whether its weights fit into the memory that is there; with `jsonl` as JSON with the
// keys name, path, source, family, type, bytes, fits, and fault where it is broken. Errors: those
// of Engine::ReadConfig.
absl::Status ListModels(const EngineOptions& options, bool jsonl);

}  // namespace ng::run

#endif  // NG_APPS_RUN_LIST_MODELS_H_
