#include "apps/run/chat.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/common/standard_input.h"
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

class Conversation {
 public:
  Conversation(Engine& engine, const CommandLine& line, int64_t capacity)
      : engine_(engine), line_(line), capacity_(capacity) {}
  ~Conversation() { Reset(); }
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  void Reset() {
    if (sequence_) engine_.CloseSequence(*sequence_);
    sequence_.reset();
    ids_.clear();
  }

  // Answers one message. After an error the conversation is as it was before.
  absl::Status Turn(const std::string& message) {
    GenerateRequest request;
    NG_ASSIGN_OR_RETURN(const std::vector<int32_t> turn, ids_.empty()
                                                             ? engine_.EncodeMessage(message)
                                                             : engine_.EncodeNextTurn(message));
    request.prompt_ids = ids_;
    request.prompt_ids.insert(request.prompt_ids.end(), turn.begin(), turn.end());
    request.max_new_tokens = engine_.default_max_new_tokens();
    NG_RETURN_IF_ERROR(Check(request));
    if (!sequence_) {
      NG_ASSIGN_OR_RETURN(sequence_, engine_.OpenSequence(capacity_));
    }
    request.sequence = sequence_;

    CompletionWriter writer(engine_, line_.jsonl, 1, n_turns_++);
    GenerateOptions options;
    AddCacheDebug(line_, &options);
    options.on_step = [&](int, const StepRecord& record) { return writer.OnStep(record); };
    options.on_done = [&](int index, const Completion& completion) {
      return writer.OnDone(index, completion);
    };
    const int64_t held = engine_.SequenceLength(*sequence_);
    absl::StatusOr<std::vector<Completion>> done =
        engine_.Generate(std::span(&request, 1), options);
    if (!done.ok()) {
      absl::Status cut = engine_.TruncateSequence(*sequence_, held);
      // The next turn then computes all of the conversation anew.
      if (IsUnsupported(cut)) cut = engine_.TruncateSequence(*sequence_, 0);
      NG_RETURN_IF_ERROR(cut);
      return done.status();
    }
    Completion& answer = done->front();
    ids_ = std::move(answer.ids);
    // The next turn follows an answer that has ended, whatever ended it.
    if (answer.stop_reason != StopReason::kEot && !engine_.stop_ids().empty()) {
      ids_.push_back(engine_.stop_ids()[0]);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Check(const GenerateRequest& request) const {
    absl::Status status = engine_.CheckRequest(request);
    if (status.ok()) {
      status = CheckCap(static_cast<int64_t>(request.prompt_ids.size()), request.max_new_tokens,
                        capacity_, "conversation tokens");
    }
    const bool full = absl::IsResourceExhausted(status) && !ids_.empty();
    return full ? Annotate(status, "the conversation is full, /new begins another: ") : status;
  }

  Engine& engine_;
  const CommandLine& line_;
  int64_t capacity_;
  std::optional<SequenceId> sequence_;
  std::vector<int32_t> ids_;
  int n_turns_ = 0;
};

}  // namespace

int64_t ChatCapacity(const Engine& engine) {
  const int64_t set = engine.config().Int("cache.max_tokens");
  if (set > 0) return set;
  const int64_t context = engine.model_shape().max_positions;
  return context > 0 ? std::min(context, kDefaultCapacity) : kDefaultCapacity;
}

absl::Status Chat(Engine& engine, const CommandLine& line, int64_t capacity,
                  const std::atomic<bool>& stop) {
  Conversation conversation(engine, line, capacity);
  StandardInput input;
  absl::Status last;
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
    last = conversation.Turn(*message);
    if (last.ok()) continue;
    const bool refused = absl::IsResourceExhausted(last) || absl::IsInvalidArgument(last);
    if (!refused) return last;
    PrintError("ng-run", last);
    last = absl::Status(last.code(), "");  // it has been printed
  }
  return last;
}

}  // namespace ng::run
