// --chat for who types at a terminal.
#ifndef NG_APPS_RUN_CHAT_TERMINAL_CHAT_H_
#define NG_APPS_RUN_CHAT_TERMINAL_CHAT_H_

#include <atomic>
#include <cstdint>

#include "apps/run/chat/editor/line_editor.h"
#include "apps/run/command_line.h"
#include "ng/engine.h"
#include "ng/files.h"
#include "ng/status.h"

namespace ng::run {

struct TerminalChatParts {
  LineEditor& editor;
  const InputLog& inputs;         // what /save must not overwrite
  const std::atomic<bool>& stop;  // that of the engine
};

// Takes messages and commands until the user ends. Errors: stdout that cannot be written.
// REQUIRES: Load has been called for the capacity.
absl::Status TerminalChat(Engine& engine, const CommandLine& line, int64_t capacity,
                          const TerminalChatParts& parts);

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_TERMINAL_CHAT_H_
