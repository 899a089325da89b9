// Drives a drafter for the checks: makes and loads it, tells it of sequences, asks for drafts with
// a fence around them, and notes everything that no drafter may do.
#ifndef NG_CORE_CONFORM_DRAFTER_RIG_H_
#define NG_CORE_CONFORM_DRAFTER_RIG_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ng/conform/drafter.h"
#include "ng/conform/executor.h"

namespace ng::conform {

using DraftTokens = std::vector<int32_t>;

// The drafter is asked for so much.
inline constexpr DrafterSpec kDrafterSpec = {.max_sequences = 3, .max_tokens = 96, .gamma = 6};

class DrafterRig {
 public:
  explicit DrafterRig(const DrafterSubject& subject);

  // The drafter, loaded; null when it cannot be, which is noted.
  std::unique_ptr<Drafter> Make();
  void Load(Drafter& drafter, const DrafterSpec& spec);

  // Tells it of a sequence that begins with the first tokens of a text, the last `n_answered` of
  // them as an answer.
  void Open(Drafter& drafter, int slot, int number, int64_t n_tokens, int64_t n_answered = 0);
  // Tells it of the tokens of a text from `begin` on.
  void Accept(Drafter& drafter, int slot, int number, int64_t begin, int64_t end);
  void Close(Drafter& drafter, int slot);
  // What it proposes for these slots when it is asked once for all of them.
  std::vector<DraftTokens> Ask(Drafter& drafter, std::span<const int> slots, int64_t most);
  DraftTokens Ask(Drafter& drafter, int slot, int64_t most = kDrafterSpec.gamma);
  // What it proposes for a text that is opened in a drafter of its own.
  DraftTokens AskAnother(int number, int64_t n_tokens);

  // A text that repeats itself, one for each number. [kDrafterSpec.max_tokens]
  static DraftTokens TextOf(int number);

  void Note(std::string finding) { findings_.push_back(std::move(finding)); }
  bool noted() const { return !findings_.empty(); }
  // The first finding decides.
  Outcome outcome() const { return noted() ? Fail(findings_.front()) : Ok(); }

 private:
  void Tell(const char* call, const absl::Status& status);
  // What is wrong with a draft of up to `most` tokens. memory: [1 + most + 1], the fence first and
  // last.
  void CheckDraft(const Draft& draft, int slot, std::span<const int32_t> memory);

  const DrafterSubject& subject_;
  std::unique_ptr<Executor> executor_;
  std::vector<std::string> findings_;
};

}  // namespace ng::conform

#endif  // NG_CORE_CONFORM_DRAFTER_RIG_H_
