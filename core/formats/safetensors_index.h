// Weights in several .safetensors files, listed by a model.safetensors.index.json.
#ifndef NG_CORE_FORMATS_SAFETENSORS_INDEX_H_
#define NG_CORE_FORMATS_SAFETENSORS_INDEX_H_

#include <memory>
#include <string>

#include "core/formats/tensor_source.h"
#include "ng/status.h"

namespace ng {

// Opens every file that the index names, all in its folder, as one source whose path() is the
// index. Index and files must agree about every tensor. Errors: ModelFileError naming the index or
// the file, the tensor, the value found and the value allowed.
absl::StatusOr<std::unique_ptr<TensorSource>> OpenSafetensorsIndex(const std::string& index_path);

}  // namespace ng

#endif  // NG_CORE_FORMATS_SAFETENSORS_INDEX_H_
