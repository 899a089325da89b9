// Gives every tensor of a file its role in the model, and says which have none.
#ifndef NG_CORE_MODEL_FILES_BIND_TENSORS_H_
#define NG_CORE_MODEL_FILES_BIND_TENSORS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/formats/key_policy.h"
#include "core/model/families/families.h"
#include "core/model/files/model_file.h"
#include "ng/status.h"

namespace ng {

// Checks that the file holds as many layers as its spec has, or `n_further` more; where that is not
// given, any number more. `says` is who names the spec's count. Errors: ModelFileError.
absl::Status CheckLayerCount(const ModelFile& file, const Family& family, const std::string& says,
                             std::optional<int64_t> n_further);

// Fills in the file's bindings, unused tensors and head_copy. Errors: ModelFileError naming the
// tensors that are missing, or one of another shape or type.
absl::Status BindTensors(const Family& family, ModelFile* file);

// A head that is called tied and is another tensor than the embedding is the head, as in
// transformers; that is in doubt. Errors: ModelFileError.
absl::Status UntieHead(const KeyPolicy& keys, ModelFile* file);

// Whether a run never asks for the tensor: it is of one of `n_further` layers behind the model's,
// or of keys that a layer takes from another.
bool IsUnasked(const TensorInfo& tensor, const ModelSpec& spec, const Family& family,
               int64_t n_further);

// Tensors that nothing is computed with are in doubt: the model may be another than its files were
// made for.
absl::Status CheckUnusedTensors(const ModelFile& file, const Family& family, int64_t n_further,
                                const KeyPolicy& keys);

}  // namespace ng

#endif  // NG_CORE_MODEL_FILES_BIND_TENSORS_H_
