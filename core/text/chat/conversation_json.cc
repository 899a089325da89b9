#include "core/text/chat/conversation_json.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/formats/json.h"
#include "ng/json.h"
#include "ng/ordered_json.h"

namespace ng {
namespace {

using OrderedJson = nlohmann::ordered_json;  // what a template prints keeps its order

constexpr int kJsonDepth = 32;

// Names of one thing; the first that a message has counts.
constexpr const char* kReasoning[] = {"reasoning_content", "thinking", "reasoning"};

absl::Status AsUsage(const absl::Status& status) {
  const absl::string_view message = status.message();
  return UsageError({message.data(), message.size()});
}

std::string Excerpt(const OrderedJson& value) { return JsonExcerpt(nlohmann::json(value)); }

absl::StatusOr<OrderedJson> Parse(const std::string& text, const char* name) {
  const absl::Status valid = CheckJson(text, name, kJsonDepth);
  return valid.ok() ? absl::StatusOr<OrderedJson>(ParseCheckedJson(text)) : AsUsage(valid);
}

// "content": a text, or a list of texts in parts.
absl::Status CheckContent(const OrderedJson& content, const std::string& where) {
  if (content.is_string()) return absl::OkStatus();
  if (!content.is_array()) {
    return UsageError(absl::StrCat(where, ": \"content\" = ", Excerpt(content),
                                   ", must be a text or a list of parts"));
  }
  for (const OrderedJson& part : content) {
    const bool is_text = part.is_object() && part.contains("type") && part["type"] == "text" &&
                         part.contains("text") && part["text"].is_string();
    if (is_text) continue;
    return UsageError(absl::StrCat(where, ": a part of \"content\" is ", Excerpt(part),
                                   ", must be {\"type\": \"text\", \"text\": a text}"));
  }
  return absl::OkStatus();
}

// The object that a text of JSON is; what is no such text as it is.
OrderedJson Read(const OrderedJson& arguments) {
  if (!arguments.is_string()) return arguments;
  const auto& text = arguments.get_ref<const std::string&>();
  if (!CheckJson(text, "", kJsonDepth).ok()) return arguments;
  OrderedJson read = ParseCheckedJson(text);
  return read.is_object() ? read : arguments;
}

// Does it with the arguments of each call that messages tell of.
template <class Messages, class Do>
void EachArguments(Messages& messages, Do with) {
  for (auto& message : messages) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) continue;
    for (auto& call : *calls) {
      const auto function = call.find("function");
      if (function == call.end()) continue;
      const auto arguments = function->find("arguments");
      if (arguments != function->end()) with(*arguments);
    }
  }
}

}  // namespace

absl::StatusOr<OrderedJson> ParseList(const std::string& text, const char* name) {
  NG_ASSIGN_OR_RETURN(OrderedJson list, Parse(text, name));
  if (list.is_array()) return list;
  return UsageError(absl::StrCat(name, ": is ", Excerpt(list), ", must be a list"));
}

absl::StatusOr<OrderedJson> ParseVariables(const std::string& text) {
  NG_ASSIGN_OR_RETURN(OrderedJson variables, Parse(text, "variables"));
  if (variables.is_object()) return variables;
  return UsageError(absl::StrCat("variables: is ", Excerpt(variables), ", must be an object"));
}

absl::StatusOr<OrderedJson> ReadVariable(const std::string& text) {
  if (CheckJson(text, "", kJsonDepth).ok()) return ParseCheckedJson(text);
  for (const auto& [python, json] :
       {std::pair("True", "true"), std::pair("False", "false"), std::pair("None", "null")}) {
    if (text == python) return UsageError(absl::StrCat("must be spelled ", json));
  }
  return OrderedJson(text);
}

absl::StatusOr<OrderedJson> ReadMessage(const OrderedJson& given, const OrderedJson& no_content,
                                        const std::string& where) {
  if (!given.is_object() || !given.contains("role") || !given["role"].is_string()) {
    return UsageError(
        absl::StrCat(where, ": is ", Excerpt(given), ", must be {\"role\": a text, ...}"));
  }
  // Its keys are different already, so they are not looked for among each other.
  OrderedJson message = OrderedJson::object();
  auto& members = message.get_ref<OrderedJson::object_t&>();
  const auto reasoning = std::ranges::find_if(
      kReasoning, [&](const char* name) { return given.contains(name) && !given[name].is_null(); });
  const bool reasons = reasoning != std::end(kReasoning);
  const bool calls = given.contains("tool_calls") && !given["tool_calls"].is_null();
  if (reasons) members.emplace_back("thinking", given[*reasoning]);
  for (const auto& [key, value] : given.items()) {
    if (value.is_null() && !(key == "content" && calls)) continue;
    if (reasons && key == "thinking") {
      members.front().second = value;
    } else {
      members.emplace_back(key, value.is_null() ? no_content : value);
    }
  }
  if (reasons && *reasoning != kReasoning[0]) {
    members.emplace_back(kReasoning[0], given[*reasoning]);
  }
  if (given.contains("content") && !given["content"].is_null()) {
    NG_RETURN_IF_ERROR(CheckContent(given["content"], where));
  }
  return message;
}

// Not by an initializer list: nlohmann's lose memory where there is no more.
OrderedJson MessageOf(std::string_view role, std::string_view content) {
  OrderedJson message = OrderedJson::object();
  message["role"] = role;
  message["content"] = content;
  return message;
}

std::string* LastText(OrderedJson& message) {
  if (!message.contains("content")) return nullptr;
  OrderedJson& content = message["content"];
  if (content.is_string()) return &content.get_ref<std::string&>();
  if (!content.is_array() || content.empty()) return nullptr;
  return &content.back()["text"].get_ref<std::string&>();
}

bool HasArgumentTexts(const OrderedJson& messages) {
  bool has = false;
  EachArguments(messages,
                [&](const OrderedJson& arguments) { has = has || arguments.is_string(); });
  return has;
}

std::vector<OrderedJson> ArgumentsOfCalls(const OrderedJson& messages) {
  std::vector<OrderedJson> all;
  EachArguments(messages, [&](const OrderedJson& given) {
    OrderedJson arguments = Read(given);
    if (arguments.is_object()) all.push_back(std::move(arguments));
  });
  return all;
}

void ReadArgumentTexts(OrderedJson* messages) {
  EachArguments(*messages, [](OrderedJson& arguments) { arguments = Read(arguments); });
}

}  // namespace ng
