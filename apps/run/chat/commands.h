// The commands of a chat: one table, for running, completing and explaining them.
#ifndef NG_APPS_RUN_CHAT_COMMANDS_H_
#define NG_APPS_RUN_CHAT_COMMANDS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "apps/run/chat/editor/line_editor.h"
#include "apps/run/chat/session.h"
#include "ng/plugins.h"
#include "ng/status.h"

namespace ng::run {

struct ChatCommand {
  enum class Takes { kNothing, kMaybe, kText, kFile };

  const char* name;      // "/regen"
  const char* also;      // other names, with blanks between them: "/retry"
  Takes takes;           // kMaybe: its argument may be left out
  const char* argument;  // "SEED"
  const char* help;
  absl::Status (Session::*run)(const std::string& argument);
};

std::span<const ChatCommand> ChatCommands();

// Whether what has been typed is a command: it begins with '/' and a word of letters, or "/?". The
// path of a file is a message, and one that begins with "//" is a message without the first of
// them.
bool IsCommand(std::string_view typed);
// Runs it; capital letters are as small ones. Errors: UsageError for an unknown command, with the
// nearest, and for a wrong argument; those of the command.
absl::Status RunCommand(const std::string& typed, Session& session);
// A line for each command, and one for the keys; of at most `columns` where they are enough.
std::string CommandHelp(size_t columns);
// Commands; behind /set keys of the config and their values, of which `plugins` are some; behind
// /load and /save files.
Completions CompleteCommand(std::string_view before_cursor, const Engine& engine,
                            std::span<const PluginFile> plugins);

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_COMMANDS_H_
