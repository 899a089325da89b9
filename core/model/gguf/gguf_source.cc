#include "core/model/gguf/gguf_source.h"

#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/model/spec/limits.h"

namespace ng {

absl::Status GgufSource::Refuse(std::string_view name, const std::string& what) const {
  return ModelFileError(absl::StrCat(path(), ": key \"", Key(name), "\"", what));
}

absl::StatusOr<std::vector<int64_t>> GgufSource::OfLayers(std::string_view name,
                                                          const GgufLayerCounts& n_layers) const {
  const std::string key = Key(name);
  const JsonFields keys = metadata.fields();
  if (!keys.Has(key) || !metadata.Field(key).is_object()) {
    NG_ASSIGN_OR_RETURN(const int64_t value, keys.Int(key, {0, kSize.max}));
    return std::vector<int64_t>(static_cast<size_t>(n_layers.used), value);
  }
  NG_ASSIGN_OR_RETURN(std::vector<int64_t> values, metadata.Ints(key));
  if (std::ssize(values) != n_layers.stored) {
    return Refuse(name, absl::StrCat(" lists ", values.size(), " layers, ", Key("block_count"),
                                     " is ", n_layers.stored));
  }
  values.resize(static_cast<size_t>(n_layers.used));
  for (const int64_t value : values) {
    if (value >= 0 && value <= kSize.max) continue;
    return Refuse(name,
                  absl::StrCat(" lists ", value, ", must list numbers in [0, ", kSize.max, "]"));
  }
  return values;
}

}  // namespace ng
