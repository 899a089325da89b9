// Conversation: what has been said, and the turns that add to it.
//
// A turn that fails leaves the conversation as it was. The cache keeps what has been computed; only
// what is new is fed. The ids of an answer are kept as they were chosen: they need not be those
// that its text would give.
#ifndef NG_APPS_RUN_CHAT_CONVERSATION_H_
#define NG_APPS_RUN_CHAT_CONVERSATION_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ng/engine.h"
#include "ng/status.h"

namespace ng::run {

// A message as the chat template reads it, and what the template does not.
// NOLINTNEXTLINE(bugprone-exception-escape): of a value that is moved nothing is allocated
struct Said {
  nlohmann::ordered_json message;  // {"role", "content", ...}
  std::vector<int32_t> ids;        // of an answer, without the token that ended it; or empty
  bool cut = false;                // an answer that may go on
};

bool HasRole(const Said& said, std::string_view role);
// The content where it is one text.
std::optional<std::string> TextOf(const Said& said);

// How a turn is shown.
struct TurnHooks {
  GenerateOptions generate;
  // Called before the request runs. The oldest `n_dropped` messages have been left out of it
  // (run.on_full = drop_turns). May be empty.
  std::function<void(const GenerateRequest& request, int n_dropped)> on_begin;
};

// What a user is told of messages that have been left out.
std::string DroppedText(int n_dropped);

// Thread: the engine's, which must outlive it. REQUIRES: Load has been called for the capacity.
class Conversation {
 public:
  // `tools`: those of ng::Conversation, or empty.
  Conversation(Engine& engine, std::string tools, int64_t capacity);
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  const std::vector<Said>& said() const { return said_; }
  const std::string& tools() const { return tools_; }
  int64_t capacity() const { return capacity_; }
  // The tokens of all that has been said. 0 before the first answer.
  int64_t length() const { return length_; }
  // Whether the last answer was cut because the conversation left it no more tokens.
  bool full() const { return full_; }
  // The message that was answered last, or waits for its answer. Null: there is none.
  const Said* LastQuestion() const;

  // Forgets everything that has been said.
  void Reset();
  // Replaces it. Returns how many answers have ids that do not spell their text with this model;
  // such ids are dropped, and the text stands for itself.
  int Replace(std::vector<Said> said, std::string tools);
  // Takes the last message and its answer back. UsageError where there is no message.
  absl::Status Undo();
  // Call this after Engine::Set: what has been said may be written in another way now.
  void SettingsChanged() { fed_.clear(); }

  // Each of these returns the completion of the turn that it ran, whose text is the last message of
  // said(). An answer has at most the tokens that the conversation leaves. Errors: LimitError where
  // that is none, UsageError for what the template does not take, and those of Engine::Generate.
  //
  // Answers a message.
  absl::StatusOr<Completion> Say(const std::string& message, const TurnHooks& hooks);
  // The same in place of the last message and its answer. REQUIRES: LastQuestion().
  absl::StatusOr<Completion> SayInstead(const std::string& message, const TurnHooks& hooks);
  // Answers the last message once more. UsageError where there is none.
  absl::StatusOr<Completion> Regenerate(const TurnHooks& hooks);
  // Goes on with an answer that was cut. UsageError where there is none.
  absl::StatusOr<Completion> GoOn(const TurnHooks& hooks);

 private:
  // The ids of what has been said to the end of its last answer; none where they are not known.
  absl::StatusOr<std::vector<int32_t>> FedBy(std::span<const Said> said) const;
  // What has been said before the last answer. REQUIRES: LastQuestion().
  std::vector<Said> BeforeAnswer() const;
  // Whether the ids of an answer are those of its text.
  bool Spells(const Said& answer) const;
  // The prompt of an answer to it. `fed`: ids that it begins with.
  absl::StatusOr<std::vector<int32_t>> Encode(std::span<const Said> said,
                                              std::span<const int32_t> fed) const;
  // The same of the answer to come.
  absl::StatusOr<std::vector<int32_t>> PromptOf(std::span<const Said> said) const;
  // Checks that the request fits the conversation. The answer gets what fits of what it may have,
  // but no less than `least`.
  absl::Status FitIn(int64_t least, GenerateRequest* request) const;
  // The request for an answer to all that is `said`.
  absl::StatusOr<GenerateRequest> RequestOf(std::span<const Said> said,
                                            std::span<const int32_t> answered, int64_t least) const;
  // A request that fits, of `said`, which loses its oldest turns where it must and may.
  absl::StatusOr<GenerateRequest> RequestFor(std::span<const int32_t> answered,
                                             std::vector<Said>* said, int* n_dropped) const;
  // Answers what has been `said`; the answer begins with `answered`.
  absl::StatusOr<Completion> Answer(std::vector<Said> said, std::vector<int32_t> answered,
                                    const TurnHooks& hooks);
  // Runs a request on the sequence, which keeps what it can of what it holds.
  absl::StatusOr<Completion> Run(GenerateRequest request, const GenerateOptions& options);
  absl::Status ForgetFrom(int64_t length);

  Engine& engine_;
  std::string tools_;
  const int64_t capacity_;
  std::optional<SequenceId> sequence_;
  std::vector<int32_t> held_;  // ids that the sequence was fed, as many as it holds or more
  std::vector<Said> said_;
  // The ids of said_ to the end of its last answer; empty where they must be found again.
  std::vector<int32_t> fed_;
  int64_t length_ = 0;
  bool full_ = false;
};

}  // namespace ng::run

#endif  // NG_APPS_RUN_CHAT_CONVERSATION_H_
