// StateStore: the states of many sequences, beside the cache that keeps their keys and values.
//
// Owned by the engine, called by the decoder on the engine's thread. A state has no tokens that
// could be taken back: a step reads the held state and writes the next one, and Commit makes the
// next one the held one. So a step that is abandoned leaves every state as it was. A sequence can
// go back to its beginning only; a caller that wants to go elsewhere feeds the tokens again.
#ifndef NG_CORE_MODEL_STATE_STORE_H_
#define NG_CORE_MODEL_STATE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "core/model/model_spec.h"
#include "ng/cache_store.h"
#include "ng/status.h"

namespace ng {

class StateStore {
 public:
  // For so many sequences at a time, whose ids are those of the cache. [load]
  // Errors: LimitError where there is no memory.
  static absl::StatusOr<StateStore> Make(const ModelSpec& spec, int max_sequences);

  // What Make takes; 0: the model has no states.
  static int64_t Bytes(const ModelSpec& spec, int max_sequences);

  bool empty() const { return n_floats_ == 0; }

  // [step] An empty sequence: all values are 0.
  void Clear(SequenceId sequence);

  // [step] The state of one layer, as StateSpec::state_floats has it. `index`: of the layer among
  // those with a state.
  const float* Held(size_t index, SequenceId sequence) const {
    return Copy(sequence, held_[At(sequence)]) + offsets_[index];
  }
  float* Next(size_t index, SequenceId sequence) {
    return Copy(sequence, 1 - held_[At(sequence)]) + offsets_[index];
  }
  // [step] REQUIRES: the next states of these sequences are written.
  void Commit(std::span<const SequenceRows> rows);

  // [step] All of a sequence: what a snapshot keeps. [n_floats]
  int64_t n_floats() const { return n_floats_; }
  std::span<float> All(SequenceId sequence) {
    return {Copy(sequence, held_[At(sequence)]), static_cast<size_t>(n_floats_)};
  }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  static size_t At(SequenceId sequence) { return static_cast<size_t>(sequence); }
  float* Copy(SequenceId sequence, int which) const {
    return memory_.get() + (int64_t{2} * sequence + which) * n_floats_;
  }

  int64_t n_floats_ = 0;                   // of a sequence
  std::vector<int64_t> offsets_;           // of each layer with a state
  std::unique_ptr<float[], Free> memory_;  // [max_sequences, 2, n_floats]
  std::vector<int> held_;                  // [max_sequences]: which of the two
};

}  // namespace ng

#endif  // NG_CORE_MODEL_STATE_STORE_H_
