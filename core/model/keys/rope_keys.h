// Rotary position embedding as a config.json says it.
#ifndef NG_CORE_MODEL_KEYS_ROPE_KEYS_H_
#define NG_CORE_MODEL_KEYS_ROPE_KEYS_H_

#include <cstdint>
#include <string>

#include "core/formats/json.h"
#include "core/model/spec/model_spec.h"
#include "ng/status.h"

namespace ng {

// The keys of a family beside those that all have.
struct RopeKeys {
  const char* theta = "rope_theta";            // empty: no key says it
  const char* part = "partial_rotary_factor";  // empty: none beside the object says it
  // Says how many dimensions turn, and `part` does not. Without `theta` nothing else is said.
  const char* n_dims = "";
  int64_t n_dims_absent = 0;       // 0: all
  const char* absent_part = "";    // says how many dimensions turn where `part` is not said
  bool dynamic_alpha = false;      // a dynamic type with `alpha` is another base
  bool yarn_is_longrope = false;   // and so is su
  int64_t original_positions = 0;  // where they are not said; 0: max_positions
};

// What a config.json does not say about RoPE, or says elsewhere.
struct RopeContext {
  double theta = 10000.0;  // the base where no key says one
  int head_dim = 0;
  int64_t max_positions = 0;
  RopePairing pairing = RopePairing::kHalfSplit;
  double part = 0.0;  // of a head that turns, where no key says it; 0: all, whatever a key says
  RopeKeys keys = {};
  const char* layer_type = "";  // of a table of its own in `rope_parameters`; empty: one for all
};

// Base and scaling as transformers takes them from a config.json: all in `rope_parameters` (5), or
// `rope_theta` beside `rope_scaling` (4), which goes before. Errors: ModelFileError naming `path`,
// the key, the value found and what is supported.
absl::StatusOr<RopeSpec> ReadRope(const JsonFields& config, const std::string& path,
                                  const RopeContext& context);

}  // namespace ng

#endif  // NG_CORE_MODEL_KEYS_ROPE_KEYS_H_
