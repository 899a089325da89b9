#include "apps/run/chat.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/common/standard_input.h"
#include "apps/run/outputs.h"
#include "ng/config.h"
#include "ng/utf8.h"

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

class Talk {
 public:
  Talk(Engine& engine, const CommandLine& line, int64_t capacity)
      : engine_(engine), line_(line), capacity_(capacity) {}
  ~Talk() { Reset(); }
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;

  void Reset() {
    if (sequence_) engine_.CloseSequence(*sequence_);
    sequence_.reset();
    ids_.clear();
    messages_.clear();
  }

  // Answers one message. After an error the conversation is as it was before.
  absl::Status Turn(const std::string& message) {
    if (FindInvalidUtf8(message)) return UsageError("the message is not valid UTF-8");
    GenerateRequest request;
    nlohmann::ordered_json messages = messages_;
    messages.push_back({{"role", "user"}, {"content", message}});
    const Conversation conversation = {.messages = messages.dump(), .tools = line_.tools};
    absl::StatusOr<std::vector<int32_t>> prompt = engine_.EncodeConversation(conversation, ids_);
    if (!prompt.ok()) return Explained(prompt.status());
    request.prompt_ids = *std::move(prompt);
    request.max_new_tokens = engine_.default_max_new_tokens();
    NG_RETURN_IF_ERROR(Check(request));
    if (!sequence_) {
      NG_ASSIGN_OR_RETURN(sequence_, engine_.OpenSequence(capacity_));
    }
    request.sequence = sequence_;
    NG_RETURN_IF_ERROR(ForgetFrom(CommonLength(request.prompt_ids, ids_)));

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
      NG_RETURN_IF_ERROR(ForgetFrom(held));
      return done.status();
    }
    Completion& answer = done->front();
    NG_ASSIGN_OR_RETURN(const std::string text, CompletionText(engine_, answer));
    // What ended it is the template's to write.
    if (answer.stop_reason == StopReason::kEot) answer.ids.pop_back();
    ids_ = std::move(answer.ids);
    messages.push_back({{"role", "assistant"}, {"content", text}});
    messages_ = std::move(messages);
    return absl::OkStatus();
  }

 private:
  static int64_t CommonLength(std::span<const int32_t> a, std::span<const int32_t> b) {
    return std::ranges::mismatch(a, b).in1 - a.begin();
  }

  // Keeps the sequence's first tokens only. A cache that cannot forget some forgets all, and the
  // whole conversation is computed anew.
  absl::Status ForgetFrom(int64_t length) {
    if (length >= engine_.SequenceLength(*sequence_)) return absl::OkStatus();
    const absl::Status cut = engine_.TruncateSequence(*sequence_, length);
    return IsUnsupported(cut) ? engine_.TruncateSequence(*sequence_, 0) : cut;
  }

  absl::Status Explained(const absl::Status& status) const {
    const bool full = absl::IsResourceExhausted(status) && !ids_.empty();
    return full ? Annotate(status, "the conversation is full, /new begins another: ") : status;
  }

  absl::Status Check(const GenerateRequest& request) const {
    absl::Status status = engine_.CheckRequest(request);
    if (status.ok()) {
      status = CheckCap(static_cast<int64_t>(request.prompt_ids.size()), request.max_new_tokens,
                        capacity_, "conversation tokens");
    }
    return Explained(status);
  }

  Engine& engine_;
  const CommandLine& line_;
  int64_t capacity_;
  std::optional<SequenceId> sequence_;
  nlohmann::ordered_json messages_ =
      nlohmann::ordered_json::array();  // message, answer, message, answer ...
  std::vector<int32_t> ids_;            // what has been said, to the last answer's end
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
  Talk conversation(engine, line, capacity);
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
