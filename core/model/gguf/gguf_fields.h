// The key-values of a GGUF file as the fields that the reader of a config.json asks for.
//
// Keys that the row of an architecture names (gguf_rows.h) are fields by that name. Where GGUF says
// a thing in another way, or in its tensors, the field is made here.
#ifndef NG_CORE_MODEL_GGUF_GGUF_FIELDS_H_
#define NG_CORE_MODEL_GGUF_GGUF_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "core/model/gguf/gguf_states.h"
#include "core/model/keys/llama_configs.h"
#include "core/model/spec/model_spec.h"
#include "ng/status.h"

namespace ng {

// What keys do not say: it is so in all models of an architecture.
struct GgufConstants {
  // Models of so many layers scale the scores by the width shared out over the heads, the others by
  // the width of a head. 0: none does.
  int64_t layers_scaled_by_width = 0;
  bool yarn_cuts_between_pairs = false;  // its ends are no whole pairs
  // Keys that must be there though others do without.
  std::span<const char* const> with = {};
  bool one_rope_base = false;  // layers with a window have the same where no key says another
  // Keys that the architecture has and that can run only where they say nothing, or 0.
  std::span<const char* const> without = {};
  const char* only_with = "";          // a switch that can run only as true, or absent
  const char* other_eps = "";          // a key of the norms' eps where the row's is absent
  const GgufStates* states = nullptr;  // of layers with a state; null: none has one
  bool yarn_weight = false;            // a key says how yarn corrects the scores
  bool layers_apart = false;           // layers differ as gguf_layers.h has it
  // Llama 4: layers that turn see chunks of so many keys.
  int64_t chunk = 0;
  bool steps_of_experts = false;  // a key says that each n-th layer has experts
  int64_t pattern = 0;            // the only one that layers with a window may have; 0: any
  bool rope_alpha = false;        // a key raises RoPE's base, as NTK-aware scaling has it
  bool temperature = false;  // queries may have one, which grows behind RoPE's original positions
};

// Those fields, and what has no place among them.
struct GgufConfig {
  nlohmann::json fields;
  int64_t n_further_layers = 0;  // behind the others; they predict further tokens
  double rope_magnitude = 1.0;   // cosines and sines are multiplied by it, too
  QueryTemperature temperature = {};
  int64_t original_positions = 0;  // what RoPE's factors are for; 0: no key says it
};

// Errors: ModelFileError naming the file, the key, the value found and what is allowed.
absl::StatusOr<GgufConfig> ReadGgufConfig(const GgufSource& source, const LlamaRow& row,
                                          const GgufConstants& constants);

}  // namespace ng

#endif  // NG_CORE_MODEL_GGUF_GGUF_FIELDS_H_
