// The body of a request to /v1/responses, which is a conversation in other words.
#ifndef NG_APPS_SERVE_RESPONSES_REQUEST_H_
#define NG_APPS_SERVE_RESPONSES_REQUEST_H_

#include <string_view>

#include "apps/serve/openai_requests.h"

namespace ng::serve {

struct ResponsesRequest {
  ChatRequest chat;
  Json said;  // what the answer repeats of the request
};

Parsed<ResponsesRequest> ParseResponses(std::string_view body);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_RESPONSES_REQUEST_H_
