// Rotary position embedding (Su et al. 2021): how fast each pair of dimensions turns.
#ifndef NG_CORE_MODEL_ROPE_H_
#define NG_CORE_MODEL_ROPE_H_

#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/model/model_spec.h"
#include "ng/status.h"

namespace ng {

// Base and scaling as transformers takes them from a config.json: all in `rope_parameters` (5), or
// `rope_theta` beside `rope_scaling` (4), which goes before. Reads max_positions. `absent_theta`:
// the base where no key says one. Errors: ModelFileError naming `path`, the key, the value found
// and what is supported.
absl::Status ReadRope(const JsonFields& config, const std::string& path, double absent_theta,
                      ModelSpec* spec);

// The angle that each pair turns by from one position to the next, [head_dim / 2].
std::vector<double> RopeFrequencies(const ModelSpec& spec);

}  // namespace ng

#endif  // NG_CORE_MODEL_ROPE_H_
