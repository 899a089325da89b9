// RandomTensorSource: a model's tensors made up on the spot, so that any shape can be run and
// measured without a file.
//
// It lists what a model of the given family and spec has, and no more. Values depend only on the
// tensor's place in that list and the element's in the tensor: matrices are uniform with a standard
// deviation of 0.02, as such models are initialised; norms are 1, biases 0.
#ifndef NG_CORE_MODEL_FILES_RANDOM_SOURCE_H_
#define NG_CORE_MODEL_FILES_RANDOM_SOURCE_H_

#include <memory>
#include <string>

#include "core/formats/tensor_source.h"
#include "core/model/families/families.h"
#include "ng/status.h"

namespace ng {

// `path` is the config.json that errors name; its "dtype" or "torch_dtype" is the tensors' type,
// float32 where there is none. Errors: ModelFileError for any other type.
absl::StatusOr<std::unique_ptr<TensorSource>> MakeRandomSource(const Family& family,
                                                               const ModelSpec& spec,
                                                               const JsonFields& config,
                                                               const std::string& path);

}  // namespace ng

#endif  // NG_CORE_MODEL_FILES_RANDOM_SOURCE_H_
