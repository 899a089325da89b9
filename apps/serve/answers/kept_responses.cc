#include "apps/serve/answers/kept_responses.h"

#include <algorithm>
#include <map>

#include "apps/serve/requests/messages_request.h"
#include "apps/serve/requests/tool_choice.h"
#include "ng/ordered_json.h"

namespace ng::serve {

void KeptResponses::Keep(const std::string& id, KeptConversation conversation) {
  const std::lock_guard lock(mutex_);
  n_bytes_ += conversation.n_bytes();
  kept_.emplace_back(id, std::move(conversation));
  while (!kept_.empty() && (kept_.size() > most_ || n_bytes_ > kMostBytes)) {
    n_bytes_ -= kept_.front().second.n_bytes();
    kept_.pop_front();
  }
}

std::optional<KeptConversation> KeptResponses::Find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(kept_, id, &std::pair<std::string, KeptConversation>::first);
  if (found == kept_.end()) return std::nullopt;
  return found->second;
}

std::string WithAnswer(const std::string& messages, const Choice& answer, bool goes_on) {
  if (goes_on && answer.calls.empty() && answer.reasoning.empty()) {
    Json list = ParseCheckedJson(messages);
    Json& content = list.back()["content"];
    if (content.is_string()) {
      content = content.get<std::string>() + answer.text;
      return JsonText(list);
    }
  }
  Json message = Json::object();
  message["role"] = "assistant";
  message["content"] = answer.text;
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  for (const ToolCall& call : answer.calls) {
    Json& one = message["tool_calls"].emplace_back(Json::object());
    one["id"] = call.id;
    one["type"] = "function";
    one["function"]["name"] = call.name;
    one["function"]["arguments"] = call.arguments;
  }
  if (answer.text.empty() && !answer.calls.empty()) message["content"] = nullptr;
  Json list = Json::array();
  list.push_back(std::move(message));
  return JoinedMessages(messages, JsonText(list));
}

std::string JoinedMessages(const std::string& before, const std::string& after) {
  if (before.empty()) return after;
  return before.substr(0, before.size() - 1) + "," + after.substr(1);
}

Parsed<ConversationFields> InThread(const KeptConversation& before, ConversationFields sent) {
  std::map<std::string, Json> names;  // of calls, by their ids
  for (const Json& message : ParseCheckedJson(before.messages)) {
    if (!message.contains("tool_calls")) continue;
    for (const Json& call : message["tool_calls"]) {
      names[call["id"].get<std::string>()] = call["function"]["name"];
    }
  }
  Json messages = ParseCheckedJson(sent.messages);
  for (Json& message : messages) {
    if (!message.contains("tool_call_id") || message.contains("name")) continue;
    const std::string id = message["tool_call_id"].get<std::string>();
    const auto name = names.find(id);
    if (name == names.end()) return NoCallOfResult(id);
    message["name"] = name->second;
  }
  const Json tools = before.tools.empty() ? Json::array() : ParseCheckedJson(before.tools);
  if (sent.choice.mode == ToolChoice::Mode::kRequired && before.tools.empty()) {
    return ApiError{.message = "tool_choice asks for a call, and the thread has no tools",
                    .param = "tool_choice"};
  }
  const Json none = Json::object();
  Fields fields(none);
  CheckToolChoice(fields, "tool_choice", sent.choice, &tools);
  if (fields.error()) return *fields.error();
  sent.messages = JoinedMessages(before.messages, messages.dump());
  sent.thread_tools = before.tools;
  if (sent.choice.mode != ToolChoice::Mode::kNone) sent.tools = before.tools;
  return sent;
}

}  // namespace ng::serve
