#include "apps/serve/responses_request.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/serve/fields.h"

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

void ReadInput(Fields& fields, ResponsesRequest* request) {
  Json messages = Json::array();
  const std::optional<std::string> instructions = fields.Text("instructions");
  if (instructions) messages.push_back(MessageOf("system", *instructions));
  request->said["instructions"] = instructions ? Json(*instructions) : Json(nullptr);
  const Json* const input = fields.Value("input");
  if (input != nullptr && input->is_string()) {
    messages.push_back(MessageOf("user", input->get<std::string>()));
  } else if (input != nullptr && input->is_array() && !input->empty()) {
    for (const Json& item : *input) messages.push_back(ReadItem(fields, item));
  } else {
    fields.Refuse("input", "must be a text, or a list of messages");
  }
  request->chat.conversation.messages = messages.dump();
}

// {"format": {"type", and of a json_schema "name", "schema"}}
void ReadForm(Fields& fields, ResponsesRequest* request) {
  Json format = {{"type", "text"}};
  const Json* const text = fields.Object("text");
  if (text != nullptr) {
    Fields inner(*text, "text.");
    const Json* const given = inner.Object("format");
    if (given != nullptr) format = *given;
    if (inner.Finish()) fields.Fail(*inner.error());
  }
  Fields inner(format, "text.format.");
  const std::string type = inner.Text("type").value_or("");
  std::string& schema = request->chat.answer.sampling.json_schema;
  if (type == "json_object") schema = kAnyObjectSchema;
  if (type == "json_schema") schema = ReadSchema(inner);
  if (type != "text" && schema.empty()) {
    inner.Refuse("type", "must be text, json_object or json_schema");
  }
  if (inner.Finish()) fields.Fail(*inner.error());
  request->said["text"] = Json::object();
  request->said["text"]["format"] = std::move(format);
}

// What is kept nowhere, and never left out, has one value that can be asked for.
void ReadFixed(Fields& fields, ResponsesRequest* request) {
  if (fields.Bool("store").value_or(false)) {
    fields.Refuse("store", "must be false: no answer is kept");
  }
  const std::string truncation = fields.Text("truncation").value_or("disabled");
  if (truncation != "disabled") {
    fields.Refuse("truncation", "must be disabled: nothing is left out");
  }
  request->said["truncation"] = "disabled";
  static_cast<void>(fields.Text("user"));
}

}  // namespace

Parsed<ResponsesRequest> ParseResponses(std::string_view body) {
  Parsed<Json> json = ParseBody(body);
  if (auto* const error = std::get_if<ApiError>(&json)) return *error;
  Fields fields(std::get<Json>(json));
  ResponsesRequest request;
  request.said = Json::object();
  AnswerFields& answer = request.chat.answer;
  answer.model = ReadModel(fields);
  answer.stream = fields.Bool("stream").value_or(false);
  answer.max_tokens = fields.Int("max_output_tokens", {1, std::numeric_limits<int32_t>::max()});
  answer.sampling.temperature = fields.Real("temperature", {0, kMostTemperature});
  answer.sampling.top_p = fields.Real("top_p", {0, 1, /*min_open=*/true});
  const auto repeat = [&](const char* name, const auto& value) {
    request.said[name] = value ? Json(*value) : Json(nullptr);
  };
  repeat("max_output_tokens", answer.max_tokens);
  repeat("temperature", answer.sampling.temperature);
  repeat("top_p", answer.sampling.top_p);
  ReadInput(fields, &request);
  ReadForm(fields, &request);
  ReadFixed(fields, &request);
  if (fields.Finish()) return *fields.error();
  return request;
}

}  // namespace ng::serve
