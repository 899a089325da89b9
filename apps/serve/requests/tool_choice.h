// Which of its tools an answer may call, and whether it must: every API's words for that, as one
// value. An API's reader fills it; the plan of an answer makes a grammar of it.
#ifndef NG_APPS_SERVE_REQUESTS_TOOL_CHOICE_H_
#define NG_APPS_SERVE_REQUESTS_TOOL_CHOICE_H_

#include <string>
#include <vector>

#include "apps/serve/requests/fields.h"

namespace ng::serve {

struct ToolChoice {
  enum class Mode {
    kAuto,      // the model says whether it calls
    kNone,      // no tool is shown, so none is called
    kRequired,  // the answer is calls of tools
  };
  Mode mode = Mode::kAuto;
  std::vector<std::string> names = {};  // that may be called; empty: all that were sent
};

// What a tool says of itself: {"function": {...}}, or the same without "function".
const Json& FunctionOf(const Json& tool);

// Refuses a choice that needs tools, or one of these, where there is none. `tools`: null where
// nothing was sent. `field`: where the choice stands.
void CheckToolChoice(Fields& fields, const char* field, const ToolChoice& choice,
                     const Json* tools);

// OpenAI's field, as chats and as responses have it: "auto", "none", "required", {"type":
// "function"} with a name, or {"type": "allowed_tools"} with a mode and tools. `tools`: what was
// sent, null where nothing was; a name that it lacks is refused, and so is "required" without one.
ToolChoice ReadToolChoice(Fields& fields, const Json* tools);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_REQUESTS_TOOL_CHOICE_H_
