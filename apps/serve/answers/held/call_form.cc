#include "apps/serve/answers/held/call_form.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/common/json.h"
#include "apps/serve/answers/held/closed_schema.h"

namespace ng::serve {
namespace {

bool IsStrict(const Json& tool) {
  const Json& function = FunctionOf(tool);
  return function.is_object() && function.contains("strict") && function["strict"] == true;
}

// Whether the request itself says that the model is to think.
bool AsksToThink(const Json& variables) {
  return variables.value("enable_thinking", Json()) == true ||
         variables.value("thinking", Json()) == true ||
         variables.value("thinking_budget", Json(0)) > Json(0);
}

}  // namespace

Conversation ConversationOf(const ConversationFields& fields) {
  return {.messages = fields.messages,
          .tools = fields.tools,
          .asks = !fields.goes_on,
          .variables = fields.variables.empty() ? "" : fields.variables.dump(),
          .goes_on = fields.goes_on};
}

absl::StatusOr<FormSetting> FormOf(const ConversationFields& conversation, const FormSetting& form,
                                   const Engine& engine) {
  const ToolChoice& choice = conversation.choice;
  const bool must = !conversation.tools.empty() && choice.mode == ToolChoice::Mode::kRequired;
  if (!form.option.empty()) {
    if (must) {
      return UsageError(absl::StrCat("tool_choice: asks for a call, and ", form.field,
                                     " for another answer; leave one of these out"));
    }
    FormSetting behind = form;
    // A grammar says what all of the answer is.
    if (form.option != "gbnf" && AsksToThink(conversation.variables)) {
      NG_ASSIGN_OR_RETURN(behind.before, engine.ThoughtsGrammar(ConversationOf(conversation)));
    }
    return behind;
  }
  if (conversation.tools.empty()) return form;
  const Json tools = Json::parse(conversation.tools);
  const bool is_kept = must || !choice.names.empty() || std::ranges::any_of(tools, IsStrict);
  // What the config says of all answers stays where nothing else is asked for.
  const std::vector<std::string> chain = engine.config().Names("sampler.chain");
  if (!is_kept && std::ranges::find(chain, "grammar") != chain.end()) return form;
  const absl::StatusOr<std::string> grammar = engine.CallGrammar(
      ConversationOf(conversation), {.must = must,
                                     .several = conversation.parallel_calls,
                                     .names = choice.names,
                                     .tools = WithClosedParameters(conversation.tools)});
  if (!grammar.ok() && !is_kept) return form;
  NG_RETURN_IF_ERROR(grammar.status());
  return FormSetting{.field = kCallForm, .option = "gbnf", .value = *grammar};
}

}  // namespace ng::serve
