// What the bodies of requests to /v1/responses have of their own: a conversation in other words.
#ifndef NG_APPS_SERVE_REQUESTS_RESPONSES_REQUEST_H_
#define NG_APPS_SERVE_REQUESTS_RESPONSES_REQUEST_H_

#include "apps/serve/requests/fields.h"
#include "apps/serve/requests/openai_requests.h"

namespace ng::serve {

// "input" and "instructions".
void ReadInput(Fields& fields, Request& request);
// "text": {"format": {"type", and of a json_schema "name", "schema"}}.
void ReadForm(Fields& fields, Request& request);

// What the answer repeats of the request, under its names there.
Json SaidOf(const Request& request, const Json& body);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_REQUESTS_RESPONSES_REQUEST_H_
