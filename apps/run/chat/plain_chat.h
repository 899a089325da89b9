// --chat where nobody types at a terminal: a message from each line of stdin.
#ifndef NG_APPS_RUN_CHAT_PLAIN_CHAT_H_
#define NG_APPS_RUN_CHAT_PLAIN_CHAT_H_

#include <atomic>
#include <cstdint>

#include "apps/run/command_line.h"
#include "ng/engine.h"
#include "ng/files.h"
#include "ng/status.h"

namespace ng::run {

struct PlainChatParts {
  const InputLog& inputs;         // what /save must not overwrite
  const std::atomic<bool>& stop;  // that of the engine
};

// Reads one message or command (commands.h) from each line of stdin, until its end, and answers it.
// What is wrong with one, such as a turn that does not fit the context, is told with one line, and
// the conversation stays as it was. Returns the status of the last one; an error with an empty
// message has been printed already. REQUIRES: Load has been called for the conversation's capacity.
absl::Status PlainChat(Engine& engine, const CommandLine& line, int64_t capacity,
                       const PlainChatParts& parts);

// The tokens that a conversation may hold: cache.max_tokens, or the model's context but at most
// cache.usual_tokens. Without that, and where the memory does not suffice for it, at most 8192.
int64_t ChatCapacity(const Engine& engine);

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_PLAIN_CHAT_H_
