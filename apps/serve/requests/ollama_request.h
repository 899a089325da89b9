// What the bodies of requests to Ollama's API have of their own: its messages, its options, and
// streams unless they are not wanted.
#ifndef NG_APPS_SERVE_REQUESTS_OLLAMA_REQUEST_H_
#define NG_APPS_SERVE_REQUESTS_OLLAMA_REQUEST_H_

#include "apps/serve/requests/fields.h"
#include "apps/serve/requests/openai_requests.h"

namespace ng::serve {

// The name of a model, which may have the tag that Ollama gives names without one.
void ReadTaggedModel(Fields& fields, const char* name, Request& request);
// "messages": an empty list only asks whether the model is there.
void ReadOllamaMessages(Fields& fields, Request& request);
void ReadOllamaTools(Fields& fields, Request& request);
// "prompt", "system" and "raw".
void ReadOllamaPrompt(Fields& fields, Request& request);
// "json", or a schema.
void ReadOllamaFormat(Fields& fields, Request& request);
// true, false, or how much.
void ReadThink(Fields& fields, Request& request);
// An object of fields, by the table.
void ReadOptions(Fields& fields, Request& request);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_REQUESTS_OLLAMA_REQUEST_H_
