// Drafter: proposes tokens that a sequence may go on with, so that one step can check several.
//
// The engine feeds the proposed tokens behind the newest one in the same step. Each position's
// token is then chosen as ever, by the sampler chain and the draw of its step. The proposals that
// agree with what is chosen have saved a step each; the others are taken back. So a drafter decides
// how fast a run is and never what it says: ids, logits and records are those of the plain run.
//
// Implemented by drafter plugins; called by the engine on its own thread:
//
//   Plan(spec)                  what Load would take; nothing is reserved
//   Load(spec)                  once, before anything else
//   Open(slot, request)         a sequence begins
//     Accept(slot, token)       each token behind what Open was told, in order
//     Propose(drafts)           before a step, for all sequences that the step may draft for
//   Close(slot)                 it has ended
//
// Accept is called for tokens that are kept, never for one that is taken back. A sequence may grow
// by many tokens without a call of Propose: the engine drafts only where it gains time.
#ifndef NG_DRAFTER_H_
#define NG_DRAFTER_H_

#include <cstdint>
#include <span>
#include <string>

#include "ng/plugin.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

// What a run asks of its drafter.
struct DrafterSpec {
  int max_sequences = 1;   // open at the same time; slots are in [0, max_sequences)
  int64_t max_tokens = 0;  // that a sequence has at most, prompt included
  int gamma = 1;           // the most tokens that are asked for at a time
};

// What Load reserves.
struct DrafterPlan {
  int64_t bytes = 0;
};

// A sequence that begins. Borrowed for the call.
struct DraftedRequest {
  int64_t number = 0;                   // DrawKey::request of its draws
  std::span<const int32_t> prompt_ids;  // what the sequence begins with
  // How many of these, the last ones, are the beginning of the answer: the next token is chosen by
  // the step of this number.
  int64_t n_answered = 0;
};

// What a step would like to check of one sequence.
struct Draft {
  int slot = 0;
  std::span<int32_t> tokens;  // [most], the engine's; what is proposed goes to its beginning
  int64_t n_tokens = 0;       // how many are proposed; 0: none
};

class Drafter {
 public:
  virtual ~Drafter() = default;

  // [load] Errors: LimitError.
  virtual absl::StatusOr<DrafterPlan> Plan(const DrafterSpec& spec) const {
    (void)spec;
    return DrafterPlan();
  }
  // [load] Reserves what all sequences need. May be called again: the earlier load is then void.
  // Errors: LimitError, ModelFileError, InterruptedError.
  virtual absl::Status Load(const DrafterSpec& spec) = 0;

  // [step] `slot` is free to be used again after Close.
  virtual absl::Status Open(int slot, const DraftedRequest& request) = 0;
  // [step] `token` was appended. Must not allocate for each token.
  virtual absl::Status Accept(int slot, int32_t token) = 0;
  virtual absl::Status Close(int slot) = 0;

  // [step] Proposes for each draft up to tokens.size() tokens, at least 1, that may follow what its
  // sequence has. The slots are distinct. What is proposed depends on the sequence's own tokens
  // alone, not on what else is asked for. Must not allocate for each token. Errors:
  // InterruptedError; any other one ends the run.
  virtual absl::Status Propose(std::span<Draft> drafts) = 0;

  // [load] One line for the end of a run: what the drafter has to say about what it did. Empty:
  // nothing.
  virtual std::string Report() const { return {}; }
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_DRAFTER_H_
