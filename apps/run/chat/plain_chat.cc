#include "apps/run/chat/plain_chat.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "apps/common/standard_input.h"
#include "apps/common/terminal.h"
#include "apps/run/chat/conversation.h"
#include "apps/run/outputs.h"
#include "ng/config.h"

namespace ng::run {
namespace {

constexpr int64_t kDefaultCapacity = 8192;

// The next message; nothing at the end of input. Errors: those of StandardInput.
absl::StatusOr<std::optional<std::string>> NextMessage(StandardInput& input) {
  if (isatty(STDIN_FILENO) != 0) WriteStderr("> ");
  NG_ASSIGN_OR_RETURN(std::optional<std::string> line, input.NextLine());
  if (line && line->ends_with('\r')) line->pop_back();
  return line;
}

// Counts the turn when it begins.
absl::Status Turn(const Engine& engine, const CommandLine& line, const std::string& message,
                  Conversation& conversation, int* n_turns) {
  CompletionWriter writer(engine, line.jsonl, 1, *n_turns);
  TurnHooks hooks;
  AddCacheDebug(line, &hooks.generate);
  hooks.generate.on_step = [&](int, const StepRecord& record) { return writer.OnStep(record); };
  hooks.generate.on_done = [&](int done, const Completion& completion) {
    return writer.OnDone(done, completion);
  };
  hooks.on_begin = [&](const GenerateRequest&, int n_dropped) {
    ++*n_turns;
    if (n_dropped > 0) PrintWarning("ng-run", DroppedText(n_dropped));
  };
  return conversation.Say(message, hooks).status();
}

}  // namespace

int64_t ChatCapacity(const Engine& engine) {
  const int64_t set = engine.config().Int("cache.max_tokens");
  if (set > 0) return set;
  const int64_t context = engine.model_shape().max_positions;
  return context > 0 ? std::min(context, kDefaultCapacity) : kDefaultCapacity;
}

absl::Status PlainChat(Engine& engine, const CommandLine& line, int64_t capacity,
                       const std::atomic<bool>& stop) {
  Conversation conversation(engine, line.tools, capacity);
  StandardInput input;
  absl::Status last;
  int n_turns = 0;
  while (!stop) {
    const absl::StatusOr<std::optional<std::string>> next = NextMessage(input);
    if (absl::IsCancelled(next.status())) break;
    NG_ASSIGN_OR_RETURN(const std::optional<std::string> message, next);
    if (!message || stop) break;
    if (message->empty()) continue;
    if (*message == "/new") {
      conversation.Reset();
      continue;
    }
    last = Turn(engine, line, *message, conversation, &n_turns);
    if (last.ok()) continue;
    const bool refused = absl::IsResourceExhausted(last) || absl::IsInvalidArgument(last);
    if (!refused) return last;
    PrintError("ng-run", last);
    last = absl::Status(last.code(), "");  // it has been printed
  }
  return last;
}

}  // namespace ng::run
