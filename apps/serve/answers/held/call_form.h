// The form of an answer to a conversation: what the request says of it, behind thoughts that it
// asks for; or with tools, which calls it may have, and whether it must.
#ifndef NG_APPS_SERVE_ANSWERS_HELD_CALL_FORM_H_
#define NG_APPS_SERVE_ANSWERS_HELD_CALL_FORM_H_

#include <string>

#include "apps/serve/requests/openai_requests.h"
#include "ng/engine.h"
#include "ng/recent.h"

namespace ng::serve {

Conversation ConversationOf(const ConversationFields& fields);

// Lists of tools whose parameters are closed, by the lists as they were given.
using ClosedTools = Recent<std::string, std::string>;

// `form` is what the request says itself: that stays, and then no tool can be called. Where nothing
// must be kept, and the model's calls are of a kind that cannot be, an answer is free. Errors:
// UsageError that begins with the field, and those of Engine::CallGrammar.
absl::StatusOr<FormSetting> FormOf(const ConversationFields& conversation, const FormSetting& form,
                                   const Engine& engine, ClosedTools& closed);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_HELD_CALL_FORM_H_
