// What the bodies of requests to /v1/responses have of their own: a conversation in other words.
#ifndef NG_APPS_SERVE_REQUESTS_RESPONSES_REQUEST_H_
#define NG_APPS_SERVE_REQUESTS_RESPONSES_REQUEST_H_

#include "apps/serve/requests/fields.h"
#include "apps/serve/requests/openai_requests.h"

namespace ng::serve {

// "input" and "instructions".
void ReadInput(Fields& fields, Request& request);
// "tools" and "tool_choice".
void ReadFlatTools(Fields& fields, Request& request);
// {"effort", "summary"}.
void ReadReasoning(Fields& fields, Request& request);
// "text": {"format": {"type", and of a json_schema "name", "schema"}}.
void ReadForm(Fields& fields, Request& request);
// Whether an "include" asks for nothing but what only a server of others could read.
bool AsksForEncrypted(const Json& include);

// What the answer repeats of the request, under its names there.
Json SaidOf(const Request& request, Fields& fields);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_REQUESTS_RESPONSES_REQUEST_H_
