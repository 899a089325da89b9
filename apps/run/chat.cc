#include "apps/run/chat.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/run/outputs.h"
#include "core/config/config.h"

namespace ng::run {
namespace {

constexpr int64_t kDefaultCapacity = 8192;

// One line of stdin without its end; nothing at the end of input or on a signal.
std::optional<std::string> ReadLine() {
  if (isatty(STDIN_FILENO) != 0) std::fputs("> ", stderr);
  char* buffer = nullptr;
  size_t size = 0;
  const ssize_t length = ::getline(&buffer, &size, stdin);
  const std::unique_ptr<char, decltype(&std::free)> owner(buffer, std::free);
  if (length < 0) return std::nullopt;
  std::string line(buffer, static_cast<size_t>(length));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
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

  // Answers one message; on an error the conversation stands as before.
  absl::Status Turn(const std::string& message) {
    GenerateRequest request;
    NG_ASSIGN_OR_RETURN(const std::vector<int32_t> turn, ids_.empty()
                                                             ? engine_.EncodeMessage(message)
                                                             : engine_.EncodeNextTurn(message));
    request.prompt_ids = ids_;
    request.prompt_ids.insert(request.prompt_ids.end(), turn.begin(), turn.end());
    request.max_new_tokens = engine_.default_max_new_tokens();
    // One more for the eot that closes an answer which ran out of tokens.
    const auto total = static_cast<int64_t>(request.prompt_ids.size()) + request.max_new_tokens + 1;
    NG_RETURN_IF_ERROR(engine_.CheckRequest(request));
    if (total > capacity_) {
      return LimitError("the conversation holds " + std::to_string(ids_.size()) +
                        " tokens: " + std::to_string(total) + " with this turn and its answer > " +
                        std::to_string(capacity_) +
                        "; lower run.max_new_tokens, or begin a new one with /new");
    }
    if (!sequence_) {
      NG_ASSIGN_OR_RETURN(sequence_, engine_.OpenSequence(capacity_));
    }
    request.sequence = sequence_;

    CompletionWriter writer(engine_, line_.jsonl, 1, n_turns_++);
    GenerateOptions options;
    options.on_step = [&](int, const StepRecord& record) { return writer.OnStep(record); };
    options.on_done = [&](int index, const Completion& completion) {
      return writer.OnDone(index, completion);
    };
    NG_ASSIGN_OR_RETURN(std::vector<Completion> done,
                        engine_.Generate(std::span(&request, 1), options));
    ids_ = std::move(done[0].ids);
    if (done[0].stop_reason == StopReason::kMaxNewTokens && !engine_.stop_ids().empty()) {
      ids_.push_back(engine_.stop_ids()[0]);
    }
    return absl::OkStatus();
  }

 private:
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
  absl::Status last;
  while (!stop) {
    const std::optional<std::string> message = ReadLine();
    if (!message || stop) break;
    if (message->empty()) continue;
    if (*message == "/new") {
      conversation.Reset();
      continue;
    }
    last = conversation.Turn(*message);
    const bool refused = last.code() == absl::StatusCode::kResourceExhausted;
    if (!last.ok() && !refused) return last;
    if (refused) {
      std::fprintf(stderr, "ng-run: error: %s\n", std::string(last.message()).c_str());
      last = LimitError("");  // said already
    }
  }
  return last;
}

}  // namespace ng::run
