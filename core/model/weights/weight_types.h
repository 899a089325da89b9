// What each of a model's matrices is held as.
#ifndef NG_CORE_MODEL_WEIGHTS_WEIGHT_TYPES_H_
#define NG_CORE_MODEL_WEIGHTS_WEIGHT_TYPES_H_

#include <array>
#include <optional>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "core/model/spec/model_spec.h"

namespace ng {

// The matrices of MatrixPair.
struct MatrixPairTypes {
  // Of q, k and v; or of gate and up, without a gate as up; or of a state's columns, its gate and
  // the values of its heads.
  std::array<WeightType, 3> in = {};
  WeightType out = WeightType::kF32;
};
// The matrices of BlockWeights. All experts are alike; only a mixture has them, and only attention
// has latents.
struct BlockWeightTypes : MatrixPairTypes {
  std::optional<MatrixPairTypes> experts = {};
  // in[0] of q_up; of all heads in[1] of their matrices of k and out of those of v.
  std::optional<MatrixPairTypes> latent = {};

  std::vector<WeightType> All() const;  // of each part, in order
};
using LayerWeightTypes = std::vector<BlockWeightTypes>;  // [blocks]

struct WeightTypes {
  WeightType embedding = WeightType::kF32;
  WeightType head = WeightType::kF32;  // the embedding's where they are tied
  // Of the layers' input: in[0] of its projection, out of its embedding.
  std::optional<MatrixPairTypes> layer_input = {};
  std::vector<LayerWeightTypes> layers;

  std::vector<WeightType> All() const;  // of all matrices, in order
};

// All of one type; embedding and head are int8 beside int4, like their grids' own files.
WeightTypes UniformWeightTypes(const ModelSpec& spec, WeightType type);

}  // namespace ng

#endif  // NG_CORE_MODEL_WEIGHTS_WEIGHT_TYPES_H_
