#include "apps/serve/requests/responses_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/serve/requests/field_readers.h"

namespace ng::serve {
namespace {

Json MessageOf(const std::string& role, const std::string& content) {
  Json message = Json::object();
  message["role"] = role;
  message["content"] = content;
  return message;
}

// The text of a message's parts. An answer that is given back has more fields, which say nothing.
std::string ReadParts(Fields& item, const Json& parts, const std::string& prefix) {
  std::string text;
  for (const Json& part : parts) {
    const Json none = Json::object();
    Fields fields(part.is_object() ? part : none, prefix + "content.");
    const std::string type = fields.Text("type").value_or("");
    if (type != "input_text" && type != "output_text") {
      fields.Refuse("type", "must be input_text or output_text");
    }
    text += fields.Text("text").value_or("");
    static_cast<void>(fields.Value("annotations"));
    static_cast<void>(fields.Value("logprobs"));
    if (fields.Finish()) item.Fail(*fields.error());
  }
  return text;
}

// {"role", "content": a text, or parts of it}.
Json ReadItem(Fields& request, const Json& item) {
  const std::string prefix = "input.";
  const Json none = Json::object();
  Fields fields(item.is_object() ? item : none, prefix);
  if (fields.Text("type").value_or("message") != "message") {
    fields.Refuse("type", "must be message");
  }
  const std::optional<std::string> role = fields.Text("role");
  if (!role) fields.Refuse("role", "must be user, assistant, system or developer");
  static_cast<void>(fields.Text("id"));
  static_cast<void>(fields.Text("status"));
  const Json* const content = fields.Value("content");
  std::string text;
  if (content != nullptr && content->is_array()) {
    text = ReadParts(fields, *content, prefix);
  } else {
    text = fields.Text("content").value_or("");
  }
  if (content == nullptr) fields.Refuse("content", "must be a text, or a list of its parts");
  if (fields.Finish()) request.Fail(*fields.error());
  return MessageOf(role.value_or(""), text);
}

}  // namespace

void ReadInput(Fields& fields, Request& request) {
  Json messages = Json::array();
  const std::optional<std::string> instructions = fields.Text("instructions");
  if (instructions) messages.push_back(MessageOf("system", *instructions));
  request.said["instructions"] = instructions ? Json(*instructions) : Json(nullptr);
  const Json* const input = fields.Value("input");
  if (input != nullptr && input->is_string()) {
    messages.push_back(MessageOf("user", input->get<std::string>()));
  } else if (input != nullptr && input->is_array() && !input->empty()) {
    for (const Json& item : *input) messages.push_back(ReadItem(fields, item));
  } else {
    fields.Refuse("input", "must be a text, or a list of messages");
  }
  request.conversation.messages = messages.dump();
}

void ReadForm(Fields& fields, Request& request) {
  Json format = {{"type", "text"}};
  const Json* const text = fields.Object("text");
  if (text != nullptr) {
    Fields inner(*text, "text.");
    const Json* const given = inner.Object("format");
    if (given != nullptr) format = *given;
    if (inner.Text("verbosity").value_or("medium") != "medium") {
      inner.Refuse("verbosity", "must be medium");
    }
    if (inner.Finish()) fields.Fail(*inner.error());
  }
  Fields inner(format, "text.format.");
  const std::string type = inner.Text("type").value_or("");
  std::string schema;
  if (type == "json_object") schema = kAnyObjectSchema;
  if (type == "json_schema") schema = ReadSchema(inner);
  if (type != "text" && schema.empty()) {
    inner.Refuse("type", "must be text, json_object or json_schema");
  }
  if (inner.Finish()) fields.Fail(*inner.error());
  if (!schema.empty()) {
    SetForm(fields, {.field = "text", .option = "json_schema", .value = schema},
            &request.answer.sampling);
  }
  request.said["text"] = Json::object();
  request.said["text"]["format"] = std::move(format);
}

Json SaidOf(const Request& request, const Json& body) {
  Json said = request.said;
  for (const char* const name : {"max_output_tokens", "temperature", "top_p"}) {
    said[name] = body.contains(name) ? body[name] : Json(nullptr);
  }
  said["truncation"] = "disabled";
  return said;
}

}  // namespace ng::serve
