// What each of a model's matrices is held as: the type that the config names, or the file's own.
#ifndef NG_CORE_MODEL_WEIGHT_TYPES_H_
#define NG_CORE_MODEL_WEIGHT_TYPES_H_

#include <string_view>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "core/model/model_file.h"
#include "ng/status.h"

namespace ng {

// The matrices of LayerWeights.
struct LayerWeightTypes {
  WeightType qkv = WeightType::kF32;
  WeightType attn_out = WeightType::kF32;
  WeightType gate_up = WeightType::kF32;
  WeightType down = WeightType::kF32;
};

struct WeightTypes {
  WeightType embedding = WeightType::kF32;
  WeightType head = WeightType::kF32;  // the embedding's where they are tied
  std::vector<LayerWeightTypes> layers;
};

// All of one type; embedding and head are int8 beside int4, like their grids' own files.
WeightTypes UniformWeightTypes(const ModelSpec& spec, WeightType type);

// What model.weights asks for. `auto` holds every tensor without loss; tensors that share a matrix,
// in the narrowest type that does so for all of them.
// Errors: PluginError for a name that no kernel has; ModelFileError naming a tensor of a type that
// no kernel has, and the names that can run.
absl::StatusOr<WeightTypes> WeightTypesFor(const ModelFile& file, std::string_view config_value);

}  // namespace ng

#endif  // NG_CORE_MODEL_WEIGHT_TYPES_H_
