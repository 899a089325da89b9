#include "apps/serve/answers/held/call_form.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/common/json.h"
#include "apps/serve/answers/held/closed_schema.h"

namespace ng::serve {
namespace {

bool AnyIsStrict(const std::string& tools) {
  return std::ranges::any_of(Json::parse(tools), [](const Json& tool) {
    const Json& function = FunctionOf(tool);
    return function.is_object() && function.contains("strict") && function["strict"] == true;
  });
}

std::string Closed(const std::string& tools, ClosedTools& closed) {
  if (const auto kept = closed.Find(tools)) return *kept;
  return *closed.Add(tools, WithClosedParameters(tools), 2 * tools.size());
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
                                   const Engine& engine, ClosedTools& closed) {
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
  const auto is_kept = [&] {
    return must || !choice.names.empty() || AnyIsStrict(conversation.tools);
  };
  // What the config says of all answers stays where nothing else is asked for.
  const std::vector<std::string> chain = engine.config().Names("sampler.chain");
  if (std::ranges::find(chain, "grammar") != chain.end() && !is_kept()) return form;
  const absl::StatusOr<std::string> grammar = engine.CallGrammar(
      ConversationOf(conversation), {.must = must,
                                     .several = conversation.parallel_calls,
                                     .names = choice.names,
                                     .tools = Closed(conversation.tools, closed)});
  if (!grammar.ok() && !is_kept()) return form;
  NG_RETURN_IF_ERROR(grammar.status());
  return FormSetting{.field = kCallForm, .option = "gbnf", .value = *grammar};
}

}  // namespace ng::serve
