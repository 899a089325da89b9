// StateStore: the states of many sequences, beside the cache that keeps their keys and values.
//
// Owned by the engine, called by the decoder on the engine's thread. A state has no tokens that
// could be taken back: a step reads the held state and writes the next one, and Commit makes the
// next one the held one. So a step that is abandoned leaves every state as it was. A sequence can
// go back to its beginning only; a caller that wants to go elsewhere feeds the tokens again, or
// has kept the state that was held there. A kept state is shared, not copied: nobody writes to a
// held state.
#ifndef NG_CORE_MODEL_OPS_STATE_STORE_H_
#define NG_CORE_MODEL_OPS_STATE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "core/model/spec/model_spec.h"
#include "ng/cache_store.h"
#include "ng/status.h"

namespace ng {

class StateStore {
 public:
  // Of sequences so many have a state at a time, and so many states are kept beside.
  struct Room {
    int max_sequences = 0;
    int max_kept = 0;
  };
  // [load] Sequences have the ids of the cache. Errors: LimitError where there is no memory.
  static absl::StatusOr<StateStore> Make(const ModelSpec& spec, const Room& room);

  // What Make takes; 0: the model has no states.
  static int64_t Bytes(const ModelSpec& spec, const Room& room);

  bool empty() const { return n_floats_ == 0; }

  // [step] An empty sequence: all values are 0. REQUIRES: of the sequences that were cleared or
  // made to go on, no more than max_sequences are not closed (here and below).
  void Clear(SequenceId sequence);
  // [step] The sequence has ended. Nothing happens where it has no state.
  void Close(SequenceId sequence);

  // [step] The state of one layer, as StateSpec::state_floats has it. `index`: of the layer among
  // those with a state.
  const float* Held(size_t index, SequenceId sequence) const {
    return Buffer(sequences_[At(sequence)].held) + offsets_[index];
  }
  float* Next(size_t index, SequenceId sequence) {
    return Buffer(sequences_[At(sequence)].next) + offsets_[index];
  }
  // [step] REQUIRES: the next states of these sequences are written.
  void Commit(std::span<const SequenceRows> rows);

  // [step] All of a sequence: what a snapshot keeps. [n_floats]
  int64_t n_floats() const { return n_floats_; }
  std::span<const float> All(SequenceId sequence) const {
    return {Buffer(sequences_[At(sequence)].held), static_cast<size_t>(n_floats_)};
  }
  // [step] The same to be written, all of it: what was there is lost. [n_floats]
  std::span<float> Overwrite(SequenceId sequence);

  // [step] Keeps the held state of a sequence, whatever becomes of the sequence. Returns its name.
  // REQUIRES: fewer than max_kept are kept.
  int Keep(SequenceId sequence);
  // [step] A sequence goes on from a kept state.
  void GoOnFrom(int kept, SequenceId sequence);
  // [step] The state is kept no longer.
  void Drop(int kept) { Release(kept); }

 private:
  static constexpr int kNone = -1;
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  struct Buffers {
    int held = kNone;  // may be shared with others; only read
    int next = kNone;  // its own
  };
  static size_t At(SequenceId sequence) { return static_cast<size_t>(sequence); }
  float* Buffer(int buffer) const { return memory_.get() + int64_t{buffer} * n_floats_; }
  // Those of a sequence, whose held one is its own from now on and may hold anything.
  Buffers& Renew(SequenceId sequence);
  int Take();
  void Release(int buffer);

  int64_t n_floats_ = 0;                   // of a sequence
  std::vector<int64_t> offsets_;           // of each layer with a state
  std::unique_ptr<float[], Free> memory_;  // [2 * max_sequences + max_kept, n_floats]
  std::vector<Buffers> sequences_;         // by id
  std::vector<int> n_users_;               // of each buffer: sequences, and 1 where it is kept
  std::vector<int> free_;                  // buffers that nobody uses
};

}  // namespace ng

#endif  // NG_CORE_MODEL_OPS_STATE_STORE_H_
