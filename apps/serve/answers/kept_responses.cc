#include "apps/serve/answers/kept_responses.h"

#include <algorithm>

#include "ng/ordered_json.h"

namespace ng::serve {

void KeptResponses::Keep(const std::string& id, std::string messages) {
  const std::lock_guard lock(mutex_);
  n_bytes_ += messages.size();
  kept_.emplace_back(id, std::move(messages));
  while (!kept_.empty() && (kept_.size() > most_ || n_bytes_ > kMostBytes)) {
    n_bytes_ -= kept_.front().second.size();
    kept_.pop_front();
  }
}

std::optional<std::string> KeptResponses::Find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(kept_, id, &std::pair<std::string, std::string>::first);
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

}  // namespace ng::serve
