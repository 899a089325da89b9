// Speculation: the drafts of a run's steps, between the generate loop and the drafter. It decides
// how many tokens are drafted for whom, asks for them, and counts what becomes of them.
//
// Made by Engine::Load, used by the generate loop on the engine's thread. Nothing here decides what
// a token is: the loop keeps a drafted one where it has chosen the same.
#ifndef NG_CORE_RUNTIME_LOOP_SPECULATION_H_
#define NG_CORE_RUNTIME_LOOP_SPECULATION_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/ranks/rank_link.h"
#include "core/runtime/loop/draft_lengths.h"
#include "ng/drafter.h"
#include "ng/status.h"

namespace ng {

class Speculation {
 public:
  // Allocates all that the steps need. The drafter is borrowed, and loaded for `spec`. `adapts`:
  // the drafts are as long as gains time; else gamma tokens, as long as there are so many. `link`:
  // of several ranks, whose drafts are as long as gains time on rank 0; null: there is one.
  Speculation(Drafter& drafter, const DrafterSpec& spec, bool adapts, RankLink* link = nullptr);

  // Forwarded to the drafter. A slot that an exception has left open is closed first.
  absl::Status Open(int slot, const DraftedRequest& request);
  absl::Status Accept(int slot, int32_t token);
  absl::Status Close(int slot);

  // A step begins: nothing is drafted yet.
  void BeginStep();
  // The step may draft up to `most` tokens for an open slot; also 0, when it feeds one token.
  void Want(int slot, int64_t most);
  // Asks the drafter. Errors: the drafter's own, and the link's.
  absl::Status Propose();
  // What is drafted for a slot in this step.
  std::span<const int32_t> DraftOf(int slot) const;
  // The same behind the token `newest`: what the step feeds. Until the next step.
  std::span<const int32_t> FedOf(int slot, int32_t newest);
  // The step that fed the wanted slots their tokens and nothing else has taken so long.
  void AddStepTime(double seconds);
  // The step has chosen so many tokens of a wanted slot, at least one: the last one behind the
  // drafted ones that were kept.
  void Chosen(int slot, int64_t n_tokens, int64_t n_kept);

  // Why a run drafts nothing, for Report. Empty: it drafts.
  void SetOff(std::string_view why) { off_ = why; }
  // "2.31 tokens a step, 61.6 % of 1234 drafted tokens kept".
  std::string Report() const;

 private:
  struct Slot {
    bool open = false;
    bool asked = false;  // the drafter has been asked for it before
    KeptShare share;
    int64_t n_quiet = 0;
    int64_t n_drafted = 0;        // in this step
    std::vector<int32_t> tokens;  // [1 + gamma]: the newest, the drafted ones
  };
  Slot& At(int slot) { return slots_[static_cast<size_t>(slot)]; }

  Drafter& drafter_;
  const int64_t gamma_;
  const bool adapts_;
  RankLink* const link_;
  DraftLengths lengths_;
  std::vector<Slot> slots_;  // [max_sequences]
  // Of this step.
  std::vector<int> wanted_;           // slots
  std::vector<DraftChoice> choices_;  // of wanted_
  std::vector<Draft> drafts_;
  std::string_view off_;
  // Of all steps.
  int64_t n_steps_ = 0;  // of one sequence each
  int64_t n_chosen_ = 0;
  int64_t n_drafted_ = 0;
  int64_t n_kept_ = 0;
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_LOOP_SPECULATION_H_
