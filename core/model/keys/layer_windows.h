// Which layers of a family that is made like llama see a window of keys only.
#ifndef NG_CORE_MODEL_KEYS_LAYER_WINDOWS_H_
#define NG_CORE_MODEL_KEYS_LAYER_WINDOWS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/model/keys/llama_row.h"
#include "core/model/spec/model_spec.h"
#include "ng/status.h"

namespace ng {

// Which layers have a window.
struct LayerWindows {
  int64_t window = 0;      // 0: none has one
  std::vector<bool> full;  // [n_layers]: these see all keys

  int64_t Of(size_t layer) const { return full[layer] ? 0 : window; }
};

// Errors: ModelFileError naming `path`, the key, the value found and what is allowed.
absl::StatusOr<LayerWindows> ReadWindows(const JsonFields& config, const std::string& path,
                                         const LlamaRow& row, const ModelSpec& spec);

}  // namespace ng

#endif  // NG_CORE_MODEL_KEYS_LAYER_WINDOWS_H_
