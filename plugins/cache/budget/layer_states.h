// What is known of each layer of each sequence.
#ifndef NG_PLUGINS_CACHE_BUDGET_LAYER_STATES_H_
#define NG_PLUGINS_CACHE_BUDGET_LAYER_STATES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ng/cache_store.h"

namespace ng {

template <class State>
class LayerStates {
 public:
  LayerStates(int64_t max_sequences, int64_t n_layers)
      : n_layers_(n_layers), states_(static_cast<size_t>(max_sequences * n_layers)) {}

  State& At(SequenceId sequence, int layer) { return states_[Index(sequence, layer)]; }
  const State& At(SequenceId sequence, int layer) const { return states_[Index(sequence, layer)]; }

 private:
  size_t Index(SequenceId sequence, int layer) const {
    return static_cast<size_t>(sequence * n_layers_ + layer);
  }

  const int64_t n_layers_;
  std::vector<State> states_;  // [max_sequences, n_layers]
};

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_BUDGET_LAYER_STATES_H_
