// What a model's weights take and cost, from its spec and what they are held as: nothing is read.
#ifndef NG_CORE_MODEL_WEIGHTS_WEIGHT_SIZES_H_
#define NG_CORE_MODEL_WEIGHTS_WEIGHT_SIZES_H_

#include <cstdint>
#include <vector>

#include "core/kernels/packed_matrix.h"
#include "core/model/spec/model_spec.h"
#include "core/model/weights/weight_types.h"
#include "ng/run_plan.h"

namespace ng {

// The matrices of a block, whose parts may be of several types. What it has not has no outputs.
struct MatrixShape {
  std::vector<WeightBand> bands = {};
  int64_t n = 0;  // outputs
  int64_t k = 0;  // inputs
};
struct MatrixPairShapes {
  MatrixShape in = {};
  MatrixShape out = {};
};
struct BlockMatrices {
  MatrixPairShapes own = {};     // of a mixture the shared feed-forward's
  MatrixPairShapes expert = {};  // of each
  int64_t n_experts = 0;
  int64_t n_used = 0;          // experts of a row
  MatrixShape q_up = {};       // of latents
  MatrixPairShapes head = {};  // of each head
  int64_t n_heads = 0;         // that have them
  MatrixShape router = {};
};
BlockMatrices MatricesOf(const ModelSpec& spec, const BlockSpec& block,
                         const BlockWeightTypes& types);

// What LoadWeights keeps. Sizes that no machine has saturate.
WeightSizes SizesOf(const ModelSpec& spec, const WeightTypes& types);

// What a step does with the matrices and states, embedding look-ups aside; the cache's part is left
// 0.
StepCost CostOf(const ModelSpec& spec, const WeightTypes& types);

}  // namespace ng

#endif  // NG_CORE_MODEL_WEIGHTS_WEIGHT_SIZES_H_
