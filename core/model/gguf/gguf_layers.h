// GGUF's keys about layers whose heads, widths and keys differ (Gemma 4's), as the fields that
// gemma4_config.cc asks for.
#ifndef NG_CORE_MODEL_GGUF_GGUF_LAYERS_H_
#define NG_CORE_MODEL_GGUF_GGUF_LAYERS_H_

#include <nlohmann/json.hpp>

#include "core/model/gguf/gguf_source.h"
#include "ng/status.h"

namespace ng {

// Adds which layers have a window, the heads of each, whose keys the last ones read, RoPE by the
// type of layer, and the width of the layers' own input. Errors: ModelFileError naming the file,
// the key, the value found and what is allowed.
absl::Status AddGgufLayers(const GgufSource& source, const GgufLayerCounts& n_layers,
                           nlohmann::json* fields);

}  // namespace ng

#endif  // NG_CORE_MODEL_GGUF_GGUF_LAYERS_H_
