// A GGUF file as the readers of its key-values see it.
#ifndef NG_CORE_MODEL_GGUF_GGUF_SOURCE_H_
#define NG_CORE_MODEL_GGUF_GGUF_SOURCE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/gguf.h"
#include "core/formats/tensor_source.h"
#include "ng/status.h"

namespace ng {

// Of the file, and without those that predict further tokens.
struct GgufLayerCounts {
  int64_t stored;
  int64_t used;
};

struct GgufSource {
  const GgufMetadata& metadata;
  const TensorSource& tensors;
  std::string architecture;

  const std::string& path() const { return metadata.path(); }
  std::string Key(std::string_view name) const { return architecture + "." + std::string(name); }
  // The error about one of the architecture's keys: `what` says the value found and what is
  // allowed.
  absl::Status Refuse(std::string_view name, const std::string& what) const;
  // Of each layer that is used, where the key has one value for all or a list of one for each.
  // Errors: ModelFileError when there is no such key, or the list has another length.
  absl::StatusOr<std::vector<int64_t>> OfLayers(std::string_view name,
                                                const GgufLayerCounts& n_layers) const;
};

}  // namespace ng

#endif  // NG_CORE_MODEL_GGUF_GGUF_SOURCE_H_
