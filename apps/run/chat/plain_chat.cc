#include "apps/run/chat/plain_chat.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "apps/common/columns.h"
#include "apps/common/standard_input.h"
#include "apps/common/terminal.h"
#include "apps/run/chat/session.h"
#include "ng/config.h"
#include "ng/run_plan.h"

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

void ShowLine(std::string_view line) {
  WriteStderr(absl::StrCat(absl::string_view(line.data(), line.size()), "\n"));
}

// Whether the memory suffices for a conversation of so many tokens.
bool HasRoom(const Engine& engine, int64_t capacity) {
  RunNeeds needs;
  needs.max_tokens = capacity;
  const absl::StatusOr<RunPlan> plan = engine.Plan(needs);
  return plan.ok() && CheckMemory(*plan).ok();
}

}  // namespace

int64_t ChatCapacity(const Engine& engine) {
  const int64_t set = engine.config().Int("cache.max_tokens");
  if (set > 0) return set;
  const int64_t usual = engine.config().Int("cache.usual_tokens");
  const int64_t most = usual > 0 ? usual : kDefaultCapacity;
  const int64_t context = engine.model_shape().max_positions;
  const int64_t capacity = context > 0 ? std::min(context, most) : most;
  return capacity > kDefaultCapacity && !HasRoom(engine, capacity) ? kDefaultCapacity : capacity;
}

absl::Status PlainChat(Engine& engine, const CommandLine& line, int64_t capacity,
                       const PlainChatParts& parts) {
  const bool typed = isatty(STDIN_FILENO) != 0;
  absl::Status last;
  SessionHost host;
  host.answer = [](std::string_view text) { return WriteStdout(text); };
  host.tell = ShowLine;
  host.remark = [=](std::string_view text) {
    if (typed) ShowLine(text);
  };
  host.warning = [](std::string_view text) { PrintWarning("ng-run", text); };
  host.fault = [&](const absl::Status& error) {
    const bool refused = absl::IsResourceExhausted(error) || absl::IsInvalidArgument(error);
    if (!refused) return error;
    PrintError("ng-run", error);
    last = absl::Status(error.code(), "");  // it has been printed
    return absl::OkStatus();
  };
  host.columns = [] { return static_cast<size_t>(StdoutColumns()); };
  host.take_interrupt = [] { return false; };
  host.closing_lines = typed && isatty(STDERR_FILENO) != 0 && HowLoud() != Loudness::kQuiet;
  host.stop = &parts.stop;
  host.inputs = &parts.inputs;
  if (isatty(STDOUT_FILENO) != 0) {
    host.style = {.terminal = true, .columns = [] { return static_cast<size_t>(StdoutColumns()); }};
  }
  Session session(engine, line, capacity, std::move(host));
  if (typed && HowLoud() != Loudness::kQuiet) {
    ShowLine(absl::StrCat("[", session.Summary(), "]"));
    ShowLine("[/help lists the commands, /exit or Ctrl-D ends]");
  }
  for (const std::string& message : line.first_messages) {
    last = absl::OkStatus();
    NG_RETURN_IF_ERROR(session.Take(message));
  }
  StandardInput input;
  while (!parts.stop && !session.ended()) {
    const absl::StatusOr<std::optional<std::string>> next = NextMessage(input);
    if (absl::IsCancelled(next.status())) break;
    NG_ASSIGN_OR_RETURN(const std::optional<std::string> message, next);
    if (!message || parts.stop) break;
    if (IsBlank(*message)) continue;
    last = absl::OkStatus();
    NG_RETURN_IF_ERROR(session.Take(*message));
    if (!session.draft().empty()) ShowLine("[the next message takes the place of the last]");
  }
  return last;
}

}  // namespace ng::run
