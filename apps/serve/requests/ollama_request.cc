#include "apps/serve/requests/ollama_request.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/serve/requests/chat_messages.h"
#include "apps/serve/requests/field_readers.h"
#include "apps/serve/requests/request_fields.h"

namespace ng::serve {
namespace {

// Calls that have no result yet. Ollama's messages need not name them.
using OpenCalls = std::deque<std::pair<std::string, std::string>>;  // ids and names

// {"function": {"name", "arguments": an object}}, perhaps with an id.
void AddOllamaCall(Fields& message, const Json& given, size_t number, OpenCalls* open,
                   ChatMessages* messages) {
  const Json none = Json::object();
  Fields call(given.is_object() ? given : none, "messages.tool_calls.");
  static_cast<void>(call.Text("type"));
  const std::optional<std::string> id = call.Text("id");
  const Json* const named = call.Object("function");
  Fields function(named == nullptr ? none : *named, "messages.tool_calls.function.");
  static_cast<void>(function.Value("index"));
  static_cast<void>(function.Value("description"));
  const std::optional<std::string> name = function.Text("name");
  if (!name) function.Refuse("name", "must be the name of a tool");
  const Json* const arguments = function.Object("arguments");
  if (function.Finish()) call.Fail(*function.error());
  if (call.Finish()) return message.Fail(*call.error());
  // Of a form that all templates take.
  const std::string made = absl::StrCat("call", absl::Dec(number, absl::kZeroPad5));
  open->emplace_back(id.value_or(made), *name);
  messages->Call(open->back().first, *name, arguments == nullptr ? "{}" : arguments->dump());
}

// The id of the call that a result is for: that which it names, or the first of this tool.
std::string CallOf(const std::string& id, const std::string& tool, OpenCalls* open) {
  const auto found = std::ranges::find_if(*open, [&](const auto& call) {
    return id.empty() ? tool.empty() || call.second == tool : call.first == id;
  });
  if (found == open->end()) return id;
  std::string found_id = found->first;
  open->erase(found);
  return found_id;
}

void AddOllamaMessage(Fields& request, const Json& given, OpenCalls* open, size_t* n_calls,
                      ChatMessages* messages) {
  const Json none = Json::object();
  Fields fields(given.is_object() ? given : none, "messages.");
  const std::optional<std::string> role = fields.Text("role");
  if (!role) fields.Refuse("role", "must be system, user, assistant or tool");
  const std::string content = fields.Text("content").value_or("");
  const std::string thinking = fields.Text("thinking").value_or("");
  const std::string tool = fields.Text("tool_name").value_or(fields.Text("name").value_or(""));
  const std::string id = fields.Text("tool_call_id").value_or("");
  const Json* const images = fields.Value("images");
  if (images != nullptr && !images->empty()) fields.Refuse("images", "must be empty: none is read");
  const Json* const calls = fields.Value("tool_calls");
  if (calls != nullptr && !calls->is_array()) fields.Refuse("tool_calls", "must be a list");
  if (role == "tool") {
    messages->Result(CallOf(id, tool, open), content);
  } else {
    if (!thinking.empty()) messages->Think(thinking);
    if (!content.empty() || calls == nullptr || calls->empty()) {
      messages->Say(role.value_or(""), content);
    }
    for (size_t i = 0; calls != nullptr && calls->is_array() && i < calls->size(); ++i) {
      AddOllamaCall(fields, (*calls)[i], ++*n_calls, open, messages);
    }
  }
  if (fields.Finish()) request.Fail(*fields.error());
}

}  // namespace

void ReadTaggedModel(Fields& fields, const char* name, Request& request) {
  constexpr std::string_view kTag = ":latest";
  const std::optional<std::string> given = fields.Text(name);
  if (!given) fields.Refuse(name, "must be the name of the model, as /api/tags has it");
  std::string& model = request.answer.model = given.value_or("");
  if (model.ends_with(kTag)) model.resize(model.size() - kTag.size());
}

void ReadOllamaMessages(Fields& fields, Request& request) {
  const Json* const list = fields.Value("messages");
  if (list != nullptr && !list->is_array()) return fields.Refuse("messages", "must be a list");
  request.asks_nothing = list == nullptr || list->empty();
  if (request.asks_nothing) return;
  ChatMessages messages;
  OpenCalls open;
  size_t n_calls = 0;
  for (const Json& one : *list) AddOllamaMessage(fields, one, &open, &n_calls, &messages);
  messages.Take(&request.conversation);
}

void ReadOllamaTools(Fields& fields, Request& request) {
  const Json* const tools = fields.Value("tools");
  if (tools == nullptr) return;
  if (!tools->is_array()) return fields.Refuse("tools", "must be a list");
  SetTools(*tools, {}, &request.conversation);
}

void ReadOllamaPrompt(Fields& fields, Request& request) {
  const std::string prompt = fields.Text("prompt").value_or("");
  const std::string system = fields.Text("system").value_or("");
  request.raw = fields.Bool("raw").value_or(false);
  request.asks_nothing = prompt.empty();
  if (request.raw && !system.empty()) {
    fields.Refuse("system", "must be empty where raw is true: no template writes it");
  }
  request.prompts.emplace_back(prompt);
  ChatMessages messages;
  if (!system.empty()) messages.Say("system", system);
  messages.Say("user", prompt);
  messages.Take(&request.conversation);
}

void ReadOllamaFormat(Fields& fields, Request& request) {
  const Json* const format = fields.Value("format");
  const bool none =
      format == nullptr || (format->is_string() && format->get<std::string>().empty());
  if (none) return;
  if (*format != "json" && !format->is_object()) {
    return fields.Refuse("format", "must be json, or a schema");
  }
  SetForm(fields,
          {.field = "format",
           .option = "json_schema",
           .value = format->is_object() ? format->dump() : kAnyObjectSchema},
          &request.answer.sampling);
}

void ReadThink(Fields& fields, Request& request) {
  const Json* const think = fields.Value("think");
  if (think == nullptr) return;
  if (think->is_boolean()) return SetThinking(*think == true, &request.conversation);
  ReadEffort(fields, "think", &request.conversation);
}

void ReadOptions(Fields& fields, Request& request) {
  const Json* const options = fields.Object("options");
  if (options == nullptr) return;
  Fields inner(*options, "options.");
  ReadFields(kOllamaOptions, inner, &request);
  if (inner.Finish()) fields.Fail(*inner.error());
}

}  // namespace ng::serve
