// What a model's matrices are held as: the type that the config names, or the file's own.
#ifndef NG_CORE_MODEL_LOAD_FILE_TYPES_H_
#define NG_CORE_MODEL_LOAD_FILE_TYPES_H_

#include <string_view>

#include "core/model/files/model_file.h"
#include "core/model/weights/weight_types.h"
#include "ng/status.h"

namespace ng {

// What model.weights asks for. `auto` holds every tensor as it is; MXFP4 as BF16, if it is not of a
// GGUF file, because those who made it did not round the inputs of its products. `mxfp4` is `auto`
// with MXFP4 as it is. Tensors of different types can
// share a matrix where they are grids that meet between blocks of columns; else they are held as
// f32, which has all their values.
// Errors: PluginError for a name that no kernel has, and for mxfp4 without such tensors.
absl::StatusOr<WeightTypes> WeightTypesFor(const ModelFile& file, std::string_view config_value);

}  // namespace ng

#endif  // NG_CORE_MODEL_LOAD_FILE_TYPES_H_
