// What a chat template is given of a conversation: its lists read from JSON text, and each message
// as transformers hands it on.
//
// Errors: UsageError naming the message and what is wrong with it.
#ifndef NG_CORE_TEXT_CHAT_CONVERSATION_JSON_H_
#define NG_CORE_TEXT_CHAT_CONVERSATION_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ng/status.h"

namespace ng {

// A list of objects, at most 32 levels deep. `name`: "messages" or "tools", for errors.
absl::StatusOr<nlohmann::ordered_json> ParseList(const std::string& text, const char* name);
// The variables of a conversation of its own: an object.
absl::StatusOr<nlohmann::ordered_json> ParseVariables(const std::string& text);
// A value of run.template.<name>: JSON, or else a text.
absl::StatusOr<nlohmann::ordered_json> ReadVariable(const std::string& text);

// `no_content`: for a content that is null beside calls of tools. `where`: begins errors.
absl::StatusOr<nlohmann::ordered_json> ReadMessage(const nlohmann::ordered_json& given,
                                                   const nlohmann::ordered_json& no_content,
                                                   const std::string& where);
nlohmann::ordered_json MessageOf(std::string_view role, std::string_view content);
// The text that a message ends with; null where there is none.
std::string* LastText(nlohmann::ordered_json& message);

// Whether messages tell of calls whose arguments are JSON text.
bool HasArgumentTexts(const nlohmann::ordered_json& messages);
// The arguments of all calls that are objects, or text of such.
std::vector<nlohmann::ordered_json> ArgumentsOfCalls(const nlohmann::ordered_json& messages);
// These arguments as objects; what is none stays.
void ReadArgumentTexts(nlohmann::ordered_json* messages);

}  // namespace ng

#endif  // NG_CORE_TEXT_CHAT_CONVERSATION_JSON_H_
