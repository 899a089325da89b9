#include "apps/run/chat/chat_file.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/common/input.h"
#include "apps/common/json.h"
#include "ng/json.h"

namespace ng::run {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxJsonDepth = 36;  // as --prompts

absl::Status CheckKeys(const Json& object, std::initializer_list<std::string_view> allowed,
                       const std::string& name) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(allowed, key) != allowed.end()) continue;
    std::string names;
    for (const std::string_view one : allowed) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", absl::string_view(one.data(), one.size()));
    }
    return UsageError(absl::StrCat(name, ": unknown key \"", key, "\"; allowed: ", names));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Said>> ReadMessages(const Json& list, const std::string& name) {
  if (!list.is_array() || list.empty()) {
    return UsageError(absl::StrCat(name, ": \"messages\" must be a list of messages"));
  }
  std::vector<Said> said;
  for (const Json& message : list) {
    const bool has_role =
        message.is_object() && message.contains("role") && message["role"].is_string();
    if (!has_role) {
      return UsageError(absl::StrCat(name, ": message ", said.size() + 1, " is ",
                                     ShownJson(message), ", must be {\"role\": a text, ...}"));
    }
    said.emplace_back().message = message;
  }
  return said;
}

absl::StatusOr<std::vector<int32_t>> ReadIds(const Json& list, const std::string& name) {
  std::vector<int32_t> ids;
  for (const Json& id : list) {
    const bool is_id =
        id.is_number_integer() && id >= 0 && id <= std::numeric_limits<int32_t>::max();
    if (!is_id) {
      return UsageError(
          absl::StrCat(name, ": \"answer_ids\" holds ", ShownJson(id), ", must hold token ids"));
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

// "answer_ids": a list for each answer, in their order.
absl::Status ReadAnswerIds(const Json& lists, const std::string& name, std::vector<Said>* said) {
  const auto n_answers =
      std::ranges::count_if(*said, [](const Said& one) { return HasRole(one, "assistant"); });
  if (!lists.is_array() || std::ssize(lists) != n_answers) {
    return UsageError(
        absl::StrCat(name, ": \"answer_ids\" must be ", n_answers, " lists, one for each answer"));
  }
  size_t next = 0;
  for (Said& one : *said) {
    if (!HasRole(one, "assistant")) continue;
    const Json& list = lists[next++];
    if (!list.is_array()) {
      return UsageError(absl::StrCat(name, ": \"answer_ids\" holds ", ShownJson(list),
                                     ", must hold lists of token ids"));
    }
    NG_ASSIGN_OR_RETURN(one.ids, ReadIds(list, name));
  }
  return absl::OkStatus();
}

// What ng adds to the messages.
absl::Status ReadOwn(const Json& own, const std::string& name, SavedChat* chat) {
  if (!own.is_object()) return UsageError(absl::StrCat(name, ": \"ng\" must be an object"));
  NG_RETURN_IF_ERROR(CheckKeys(own, {"answer_ids", "cut", "set"}, name + ": \"ng\""));
  if (own.contains("answer_ids")) {
    NG_RETURN_IF_ERROR(ReadAnswerIds(own["answer_ids"], name, &chat->said));
  }
  if (own.contains("cut")) {
    if (!own["cut"].is_boolean()) {
      return UsageError(
          absl::StrCat(name, ": \"cut\" = ", ShownJson(own["cut"]), ", must be true or false"));
    }
    chat->said.back().cut = own["cut"].get<bool>() && HasRole(chat->said.back(), "assistant");
  }
  if (!own.contains("set")) return absl::OkStatus();
  const auto is_text = [](const Json& value) { return value.is_string(); };
  if (!own["set"].is_object() || !std::ranges::all_of(own["set"], is_text)) {
    return UsageError(absl::StrCat(name, ": \"set\" must be an object of texts"));
  }
  for (const auto& [key, value] : own["set"].items()) {
    chat->settings[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

}  // namespace

std::string ChatFileText(const SavedChat& chat) {
  Json file = Json::object();
  Json& messages = file["messages"] = Json::array();
  Json answer_ids = Json::array();
  for (const Said& one : chat.said) {
    messages.push_back(one.message);
    if (HasRole(one, "assistant")) answer_ids.push_back(one.ids);
  }
  if (!chat.tools.empty()) file["tools"] = Json::parse(chat.tools);
  Json& own = file["ng"] = Json::object();
  own["answer_ids"] = std::move(answer_ids);
  own["cut"] = !chat.said.empty() && chat.said.back().cut;
  own["set"] = chat.settings;
  return file.dump() + "\n";
}

absl::StatusOr<SavedChat> ParseChatFile(std::string_view text, const std::string& name) {
  const absl::Status valid = CheckJson(text, name, kMaxJsonDepth);
  if (!valid.ok()) return AsUsage(valid);
  const Json file = Json::parse(text);
  SavedChat chat;
  if (file.is_array()) {
    NG_ASSIGN_OR_RETURN(chat.said, ReadMessages(file, name));
    return chat;
  }
  if (!file.is_object() || !file.contains("messages")) {
    return UsageError(name + ": must be a list of messages, or an object with \"messages\"");
  }
  NG_RETURN_IF_ERROR(CheckKeys(file, {"messages", "tools", "ng"}, name));
  NG_ASSIGN_OR_RETURN(chat.said, ReadMessages(file["messages"], name));
  if (file.contains("tools")) chat.tools = file["tools"].dump();
  if (file.contains("ng")) NG_RETURN_IF_ERROR(ReadOwn(file["ng"], name, &chat));
  return chat;
}

}  // namespace ng::run
