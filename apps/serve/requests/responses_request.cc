#include "apps/serve/requests/responses_request.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/serve/requests/chat_messages.h"
#include "apps/serve/requests/field_readers.h"

namespace ng::serve {
namespace {

constexpr const char* kInput = "input.";

// The text of an item's parts. An answer that is given back has more fields, which say nothing.
std::string ReadParts(Fields& item, const Json& parts, const std::string& prefix) {
  std::string text;
  for (const Json& part : parts) {
    const Json none = Json::object();
    Fields fields(part.is_object() ? part : none, prefix);
    const std::string type = fields.Text("type").value_or("");
    if (type != "input_text" && type != "output_text" && type != "text") {
      fields.Refuse("type", "must be input_text or output_text");
    }
    text += fields.Text("text").value_or("");
    static_cast<void>(fields.Value("annotations"));
    static_cast<void>(fields.Value("logprobs"));
    if (fields.Finish()) item.Fail(*fields.error());
  }
  return text;
}

// A text, or parts of it.
std::string ReadText(Fields& item, const char* name) {
  const Json* const content = item.Value(name);
  if (content != nullptr && content->is_array()) {
    return ReadParts(item, *content, absl::StrCat(kInput, name, "."));
  }
  if (content == nullptr) item.Refuse(name, "must be a text, or a list of its parts");
  return item.Text(name).value_or("");
}

// {"role", "content"}.
void ReadMessageItem(Fields& item, ChatMessages* messages) {
  const std::optional<std::string> role = item.Text("role");
  if (!role) item.Refuse("role", "must be user, assistant, system or developer");
  static_cast<void>(item.Text("phase"));
  messages->Say(role.value_or(""), ReadText(item, "content"));
}

// {"call_id", "name", "arguments"}.
void ReadCallItem(Fields& item, ChatMessages* messages) {
  std::string parts[3];
  constexpr const char* kNames[] = {"call_id", "name", "arguments"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    const std::optional<std::string> text = item.Text(kNames[i]);
    if (!text) item.Refuse(kNames[i], "must be a text");
    parts[i] = text.value_or("");
  }
  for (const char* const label : {"caller", "namespace"}) static_cast<void>(item.Value(label));
  messages->Call(parts[0], parts[1], parts[2]);
}

// {"call_id", "output"}.
void ReadResultItem(Fields& item, ChatMessages* messages) {
  const std::optional<std::string> id = item.Text("call_id");
  if (!id) item.Refuse("call_id", "must be a text");
  messages->Result(id.value_or(""), ReadText(item, "output"));
}

// {"content": parts of type reasoning_text}, or a "summary" of them.
void ReadReasoningItem(Fields& item, ChatMessages* messages) {
  std::string thoughts;
  for (const char* const name : {"content", "summary"}) {
    const Json* const parts = item.Value(name);
    if (parts == nullptr || !thoughts.empty()) continue;
    if (!parts->is_array()) return item.Refuse(name, "must be a list of parts");
    for (const Json& part : *parts) {
      const bool is_text = part.is_object() && part.contains("text") && part["text"].is_string();
      if (!is_text) return item.Refuse(name, "must be parts with a text");
      thoughts += part["text"].get<std::string>();
    }
  }
  static_cast<void>(item.Text("encrypted_content"));  // that only its makers can read
  if (!thoughts.empty()) messages->Think(thoughts);
}

void ReadItem(Fields& request, const Json& given, ChatMessages* messages) {
  using Reading = void (*)(Fields & item, ChatMessages * messages);
  static constexpr std::pair<std::string_view, Reading> kItems[] = {
      {"message", ReadMessageItem},
      {"function_call", ReadCallItem},
      {"function_call_output", ReadResultItem},
      {"reasoning", ReadReasoningItem}};
  const Json none = Json::object();
  Fields item(given.is_object() ? given : none, kInput);
  const std::string type = item.Text("type").value_or("message");
  const auto* const found =
      std::ranges::find(kItems, type, &std::pair<std::string_view, Reading>::first);
  static_cast<void>(item.Text("id"));
  static_cast<void>(item.Text("status"));
  if (found == std::end(kItems)) {
    item.Refuse("type", "must be message, function_call, function_call_output or reasoning");
  } else {
    found->second(item, messages);
  }
  if (item.Finish()) request.Fail(*item.error());
}

// A flat one: {"type": "function", "name", "description", "parameters", "strict"}.
Json ReadFlatTool(Fields& request, const Json& given) {
  const Json none = Json::object();
  Fields fields(given.is_object() ? given : none, "tools.");
  if (fields.Text("type").value_or("") != "function") {
    fields.Refuse("type", "must be function: the server itself has no tools");
  }
  Json tool = ReadTool(fields, fields.Object("parameters"));
  if (fields.Finish()) request.Fail(*fields.error());
  return tool;
}

}  // namespace

void ReadInput(Fields& fields, Request& request) {
  const std::optional<std::string> instructions = fields.Text("instructions");
  if (instructions) {
    Json message = Json::object();
    message["role"] = "system";
    message["content"] = *instructions;
    request.conversation.instructions = message.dump();
  }
  ChatMessages messages;
  const Json* const input = fields.Value("input");
  if (input != nullptr && input->is_string()) {
    messages.Say("user", input->get<std::string>());
  } else if (input != nullptr && input->is_array() && !input->empty()) {
    for (const Json& item : *input) ReadItem(fields, item, &messages);
  }
  if (messages.empty()) fields.Refuse("input", "must be a text, or a list of items");
  messages.Take(&request.conversation);
}

void ReadFlatTools(Fields& fields, Request& request) {
  const Json* const given = fields.Value("tools");
  if (given != nullptr && !given->is_array()) return fields.Refuse("tools", "must be a list");
  Json tools = Json::array();
  for (size_t i = 0; given != nullptr && i < given->size(); ++i) {
    tools.push_back(ReadFlatTool(fields, (*given)[i]));
  }
  SetTools(tools, ReadToolChoice(fields, given), &request.conversation);
}

void ReadReasoning(Fields& fields, Request& request) {
  const Json* const reasoning = fields.Object("reasoning");
  if (reasoning == nullptr) return;
  Fields inner(*reasoning, "reasoning.");
  const std::optional<bool> enabled = inner.Bool("enabled");
  if (enabled) SetThinking(*enabled, &request.conversation);
  ReadEffort(inner, "effort", &request.conversation);
  ReadThoughtBudget(inner, "max_tokens", 0, &request);
  if (inner.Bool("exclude").value_or(false)) {
    inner.Refuse("exclude", "must be false: thoughts are shown");
  }
  // Thoughts come as they are; nobody makes another text of them.
  for (const char* const name : {"summary", "generate_summary"}) {
    static_cast<void>(inner.Text(name));
  }
  if (inner.Finish()) fields.Fail(*inner.error());
}

void ReadForm(Fields& fields, Request& request) {
  const Json* const text = fields.Object("text");
  if (text == nullptr) return;
  Fields inner(*text, "text.");
  const Json* const given = inner.Object("format");
  if (inner.Text("verbosity").value_or("medium") != "medium") {
    inner.Refuse("verbosity", "must be medium");
  }
  if (inner.Finish()) fields.Fail(*inner.error());
  if (given == nullptr) return;
  Fields format(*given, "text.format.");
  const std::string type = format.Text("type").value_or("");
  std::string schema;
  if (type == "json_object") schema = kAnyObjectSchema;
  if (type == "json_schema") schema = ReadSchema(format);
  if (type != "text" && schema.empty()) {
    format.Refuse("type", "must be text, json_object or json_schema");
  }
  if (format.Finish()) fields.Fail(*format.error());
  if (schema.empty()) return;
  SetForm(fields, {.field = "text", .option = "json_schema", .value = schema},
          &request.answer.sampling);
}

bool AsksForEncrypted(const Json& include) {
  return include.is_array() && std::ranges::all_of(include, [](const Json& one) {
           return one == "reasoning.encrypted_content";
         });
}

Json SaidOf(const Request& request, Fields& fields) {
  const auto said_or = [&](const char* name, const Json& otherwise) {
    const Json* const found = fields.Value(name);
    return found == nullptr ? otherwise : *found;
  };
  Json said = Json::object();
  for (const char* const name :
       {"instructions", "max_output_tokens", "previous_response_id", "temperature", "top_p"}) {
    said[name] = said_or(name, nullptr);
  }
  said["metadata"] = said_or("metadata", Json::object());
  said["parallel_tool_calls"] = request.conversation.parallel_calls;
  said["reasoning"] = Json::object();
  said["reasoning"]["effort"] = nullptr;
  said["reasoning"]["summary"] = nullptr;
  const Json none = Json::object();
  const auto add = [&](const char* name) {
    const Json given = said_or(name, none);
    if (given.is_object()) said[name].update(given);
  };
  add("reasoning");
  said["store"] = request.store;
  said["text"] = Json::object();
  said["text"]["format"] = {{"type", "text"}};
  add("text");
  said["tool_choice"] = said_or("tool_choice", "auto");
  said["tools"] = said_or("tools", Json::array());
  said["truncation"] = "disabled";
  return said;
}

}  // namespace ng::serve
