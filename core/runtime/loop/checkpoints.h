// Checkpoints: positions of texts that later requests can go on from, where the pages that a cache
// shares are not enough: in models whose layers keep a state, or hold no more than a window.
//
// A checkpoint is the ids of a text up to a position, the states there, and the windows before it.
// The tokens of all other layers are in the cache's shared pages, so it lies between two pages. It
// is found by its ids, all of them. There is a fixed number of checkpoints; the one that was not
// used for the longest time makes room for another, and for a request that the cache has no room
// for.
//
// Made by Engine::Load, used by the generate loop on the engine's thread. Ids are those that the
// cache lists (model/step/listed_ids.h): the same ones have the same states and rows.
#ifndef NG_CORE_RUNTIME_LOOP_CHECKPOINTS_H_
#define NG_CORE_RUNTIME_LOOP_CHECKPOINTS_H_

#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "core/model/ops/state_store.h"
#include "core/plugin/cache_groups.h"
#include "ng/status.h"

namespace ng {

class Checkpoints {
 public:
  // Names a checkpoint for whoever made it. It may be gone by now.
  using Number = uint64_t;
  static constexpr Number kNone = 0;

  // Both are borrowed; the cache shares pages. At most `most` checkpoints, of texts of up to
  // `max_tokens` tokens.
  Checkpoints(CacheGroups& cache, StateStore& states, int most, int64_t max_tokens);

  // What their ids take. That of states and windows is in the stores.
  static int64_t Bytes(int most, int64_t max_tokens);

  // The last place between two pages that is not behind `position`. Checkpoints lie at such places.
  int64_t PlaceBefore(int64_t position) const { return position - position % page_tokens_; }
  // A step must end where a checkpoint is made: a state cannot go back.
  bool end_steps() const { return !states_.empty(); }

  // Opens a sequence for a text that begins with `prompt`, with the tokens of the longest
  // checkpoint that it begins with; fewer than the prompt has. Makes room by dropping checkpoints.
  // Errors: as CacheStore::Open.
  absl::StatusOr<SequenceId> Open(std::span<const int32_t> prompt, int64_t capacity);
  // How many tokens that would be.
  int64_t Reach(std::span<const int32_t> prompt) const;
  // The last place up to which the prompt is like the text of some checkpoint.
  int64_t Common(std::span<const int32_t> prompt) const;

  // Makes a checkpoint behind the first ids.size() tokens of a sequence, which `ids` are, in place
  // of the one that `moved` names, which was made of the same text. It is a place; where steps end
  // at checkpoints it is the end of the sequence. Where the cache has no room there is none.
  // Errors: PluginError.
  absl::StatusOr<Number> Make(SequenceId sequence, std::span<const int32_t> ids,
                              Number moved = kNone);

 private:
  struct Checkpoint {
    Number number = kNone;
    std::vector<int32_t> ids;
    CacheGroups::Windows windows;
    int state = 0;  // where the model has any
  };
  using Used = std::list<Checkpoint>;

  // The one that Open takes; the end of used_: none.
  Used::iterator Find(std::span<const int32_t> prompt);
  absl::StatusOr<SequenceId> OpenFrom(const Checkpoint& from, std::span<const int32_t> prompt,
                                      int64_t capacity);
  absl::StatusOr<SequenceId> OpenWithout(std::span<const int32_t> prompt, int64_t capacity);
  // Takes the one longest unused but for `spared`. False: there is no other one.
  bool DropLast(Used::iterator spared);
  void Drop(Used::iterator dropped);

  CacheGroups& cache_;
  StateStore& states_;
  const int64_t page_tokens_;
  Number last_number_ = kNone;
  Used used_;    // the one used last comes first
  Used unused_;  // room for others
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_LOOP_CHECKPOINTS_H_
