// What the bodies of requests to Anthropic's /v1/messages have of their own: a conversation of
// blocks.
#ifndef NG_APPS_SERVE_REQUESTS_MESSAGES_REQUEST_H_
#define NG_APPS_SERVE_REQUESTS_MESSAGES_REQUEST_H_

#include <string>

#include "apps/serve/requests/fields.h"
#include "apps/serve/requests/openai_requests.h"

namespace ng::serve {

// {"type": "create"}, or "continue" with "previous_message_id": before all that follows.
void ReadThread(Fields& fields, Request& request);
// What a result of a call is told where there is no such call.
ApiError NoCallOfResult(const std::string& id);
// "messages" and "system".
void ReadBlockMessages(Fields& fields, Request& request);
// "tools" and "tool_choice".
void ReadBlockTools(Fields& fields, Request& request);
// {"type": "enabled", "budget_tokens"}, "adaptive" or "disabled".
void ReadThinkingField(Fields& fields, Request& request);
// {"effort", "format"}; and the format alone, as older clients have it.
void ReadOutputConfig(Fields& fields, Request& request);
void ReadOutputFormat(Fields& fields, const char* name, const std::string& prefix,
                      Request& request);

// Whether what is to be done with a long conversation leaves this one as it is: nothing, or to keep
// all thoughts.
bool ManagesNothing(const Json& management);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_REQUESTS_MESSAGES_REQUEST_H_
