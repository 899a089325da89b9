#include "apps/serve/requests/chat_messages.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/serve/requests/fields.h"

namespace ng::serve {
namespace {

constexpr const char* kAssistant = "assistant";

Json NewMessage(const std::string& role, Json content) {
  Json message = Json::object();
  message["role"] = role;
  message["content"] = std::move(content);
  return message;
}

// Whether a message is the beginning of an answer: it says something, and calls nothing.
bool BeginsAnswer(const Json& message) {
  if (!message.is_object() || !message.contains("role") || message["role"] != kAssistant) {
    return false;
  }
  const auto calls = message.find("tool_calls");
  if (calls != message.end() && !calls->empty()) return false;
  const auto content = message.find("content");
  if (content == message.end()) return false;
  if (content->is_string()) return !content->get_ref<const std::string&>().empty();
  return content->is_array() && !content->empty();
}

}  // namespace

bool ChatMessages::LastIs(const std::string& role) const {
  return !list_.empty() && list_.back()["role"] == role;
}

Json& ChatMessages::Answer() {
  if (!LastIs(kAssistant)) list_.push_back(NewMessage(kAssistant, nullptr));
  return list_.back();
}

void ChatMessages::Say(const std::string& role, const std::string& text) {
  if (role == kAssistant && LastIs(role)) {
    Json& answer = list_.back();
    if (answer["content"].is_null() && !answer.contains("tool_calls")) {
      answer["content"] = text;
      return;
    }
  }
  list_.push_back(NewMessage(role, text));
}

void ChatMessages::SayOn(const std::string& role, const std::string& text) {
  if (!LastIs(role)) return Say(role, text);
  list_.back()["content"].get_ref<std::string&>() += "\n" + text;
}

void ChatMessages::Think(const std::string& text) {
  // Thoughts begin an answer.
  if (LastIs(kAssistant) &&
      (!list_.back()["content"].is_null() || list_.back().contains("tool_calls"))) {
    list_.push_back(NewMessage(kAssistant, nullptr));
  }
  Json& thoughts = Answer()["reasoning_content"];
  thoughts = (thoughts.is_null() ? std::string() : thoughts.get<std::string>()) + text;
}

void ChatMessages::Call(const std::string& id, const std::string& name,
                        const std::string& arguments) {
  names_[id] = name;
  Json call = Json::object();
  call["id"] = id;
  call["type"] = "function";
  call["function"]["name"] = name;
  call["function"]["arguments"] = arguments;
  Answer()["tool_calls"].push_back(std::move(call));
}

void ChatMessages::Result(const std::string& id, const std::string& text) {
  Json message = NewMessage("tool", text);
  message["tool_call_id"] = id;
  if (const auto name = names_.find(id); name != names_.end()) message["name"] = name->second;
  list_.push_back(std::move(message));
}

void ChatMessages::Take(ConversationFields* conversation) {
  for (Json& message : list_) {
    if (message["content"].is_null() && !message.contains("tool_calls")) message["content"] = "";
  }
  SetMessages(list_, conversation);
}

void SetMessages(const Json& messages, ConversationFields* conversation) {
  conversation->goes_on = !messages.empty() && BeginsAnswer(messages.back());
  conversation->messages = messages.dump();
}

void SetTools(const Json& tools, ToolChoice choice, ConversationFields* conversation) {
  const bool shown = choice.mode != ToolChoice::Mode::kNone && !tools.empty();
  if (shown) conversation->tools = tools.dump();
  conversation->choice = std::move(choice);
}

Json ReadTool(Fields& fields, const Json* schema) {
  Json function = Json::object();
  const std::optional<std::string> name = fields.Text("name");
  if (!name) fields.Refuse("name", "must be a text");
  function["name"] = name.value_or("");
  if (const auto description = fields.Text("description")) function["description"] = *description;
  if (schema != nullptr) function["parameters"] = *schema;
  if (const auto strict = fields.Bool("strict")) function["strict"] = *strict;
  if (fields.Bool("defer_loading").value_or(false)) {
    fields.Refuse("defer_loading", "must be false: all tools are shown");
  }
  Json tool = Json::object();
  tool["type"] = "function";
  tool["function"] = std::move(function);
  return tool;
}

void SetThinking(bool thinks, ConversationFields* conversation) {
  for (const char* const name : {"enable_thinking", "thinking"}) {
    conversation->variables[name] = thinks;
  }
}

void SetEffort(const std::string& effort, ConversationFields* conversation) {
  SetThinking(effort != "none", conversation);
  if (effort != "none") conversation->variables["reasoning_effort"] = effort;
}

void ReadEffort(Fields& fields, const char* name, ConversationFields* conversation) {
  constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium",
                                           "high", "xhigh",   "max"};
  const std::optional<std::string> effort = fields.Text(name);
  if (!effort) return;
  if (std::ranges::find(kEfforts, *effort) == std::end(kEfforts)) {
    return fields.Refuse(name, "must be none, minimal, low, medium, high, xhigh or max");
  }
  SetEffort(*effort, conversation);
}

}  // namespace ng::serve
