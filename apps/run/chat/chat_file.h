// A conversation in a file: what /save writes and /load reads.
#ifndef NG_APPS_RUN_CHAT_CHAT_FILE_H_
#define NG_APPS_RUN_CHAT_CHAT_FILE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/run/chat/conversation.h"
#include "ng/status.h"

namespace ng::run {

struct SavedChat {
  std::vector<Said> said;  // a system text first, if there is one
  std::string tools;       // empty: none
  // Config keys that differ from the run's own, with their values.
  std::map<std::string, std::string> settings;
};

// {"messages": [...], "tools": [...], "ng": {"answer_ids": [[...], ...], "cut": false,
// "set": {"sampler.seed": "2"}}}. "ng" is what it takes to go on alike: the ids of each answer,
// whether the last one was cut, and the settings.
std::string ChatFileText(const SavedChat& chat);

// Reads such a text, or a list of messages alone. Errors: UsageError that begins with `name`.
absl::StatusOr<SavedChat> ParseChatFile(std::string_view text, const std::string& name);

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_CHAT_FILE_H_
