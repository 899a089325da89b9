// The engine that is served, and what a server adds to a config that does not say it: how many
// answers at a time, how long, in which pieces prompts are read, and that a conversation is read
// once.
#ifndef NG_APPS_SERVE_SERVED_ENGINE_H_
#define NG_APPS_SERVE_SERVED_ENGINE_H_

#include <memory>

#include "ng/engine.h"
#include "ng/status.h"

namespace ng::serve {

// Opens the engine and says what Load is to be told. No bit of an answer depends on what is added.
// Errors: those of ReadSettings, of Engine::Open and Plan; LimitError where it does not fit.
absl::StatusOr<std::unique_ptr<Engine>> OpenServed(EngineOptions options, RunNeeds* needs);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_SERVED_ENGINE_H_
