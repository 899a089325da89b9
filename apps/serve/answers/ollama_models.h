// What there is to serve, in the words of Ollama's API: /api/tags, /api/ps, /api/show and
// /api/version.
#ifndef NG_APPS_SERVE_ANSWERS_OLLAMA_MODELS_H_
#define NG_APPS_SERVE_ANSWERS_OLLAMA_MODELS_H_

#include <string>

#include "apps/serve/answers/answer_plan.h"

namespace ng::serve {

// The one model: as it lies there, and as it is loaded.
Json OllamaTags(const PlanParts& parts);
Json OllamaRunning(const PlanParts& parts);
// Of the model that a body names: what it is, what it can do, and how long a text it takes.
Parsed<Json> OllamaShow(const std::string& body, const PlanParts& parts);
Json OllamaVersion(const PlanParts& parts);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_OLLAMA_MODELS_H_
