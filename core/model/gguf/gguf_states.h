// GGUF's keys about layers with a state, as the fields that state_configs.h asks for.
#ifndef NG_CORE_MODEL_GGUF_GGUF_STATES_H_
#define NG_CORE_MODEL_GGUF_GGUF_STATES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "core/model/gguf/gguf_source.h"
#include "ng/status.h"

namespace ng {

// How a file says which layers have a state.
enum class GgufStateLayers {
  kWithoutKeys,  // those with no heads of keys
  kOneBlock,  // those with no heads of keys and no feed-forward, which layers have in their place
  kListed,    // those listed, or all but every n-th
};

struct GgufStateSize {
  const char* key;
  const char* field;
};

// What an architecture says of its states; empty names: nothing.
struct GgufStates {
  const char* layer_type;  // what the field that lists the layers calls those with one
  GgufStateLayers layers = GgufStateLayers::kWithoutKeys;
  std::span<const GgufStateSize> sizes;
  const char* value_dim = "";   // field: the inner size shared out over the heads
  const char* expansion = "";   // field: the inner size is so many times the width
  const char* conv_bias = "";   // field: whether a convolution has its tensor
  const char* least_step = "";  // field of a bound that llama.cpp does not have: 0
  bool heads_in_turn = false;   // as StateSpec has it
};

// Adds the list of layers, the sizes, and what an array says of each layer where all that have it
// have the same. Errors: ModelFileError naming the file, the key, the value found and what is
// allowed.
absl::Status AddGgufStates(const GgufSource& source, const GgufStates& states,
                           const GgufLayerCounts& n_layers, nlohmann::json* fields);

}  // namespace ng

#endif  // NG_CORE_MODEL_GGUF_GGUF_STATES_H_
