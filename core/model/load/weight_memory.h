// The weights of a decoder before they are read: room for every matrix, what no file holds (norms
// that are ones, sines), and where each tensor of a file goes.
#ifndef NG_CORE_MODEL_LOAD_WEIGHT_MEMORY_H_
#define NG_CORE_MODEL_LOAD_WEIGHT_MEMORY_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "core/kernels/packed_matrix.h"
#include "core/model/files/model_file.h"
#include "core/model/load/row_packer.h"
#include "core/model/weights/weight_types.h"
#include "core/model/weights/weights.h"
#include "ng/status.h"

namespace ng {

// All matrices, in `memory` one behind the other, always in the same order. A vector that a file
// holds is empty. Errors: LimitError. REQUIRES: the memory has SizesOf(spec, types).matrix_bytes().
absl::StatusOr<ModelWeights> MakeWeights(const ModelSpec& spec, const WeightTypes& types,
                                         WeightMemory& memory);

// Where the tensor goes.
Place PlaceOf(const TensorBinding& binding, const ModelSpec& spec, ModelWeights& weights);

// Every vector of the weights, those that are empty too, always in the same order.
using VectorVisitor = absl::FunctionRef<void(std::vector<float>& vector)>;
void ForEachVector(ModelWeights& weights, VectorVisitor visit);

}  // namespace ng

#endif  // NG_CORE_MODEL_LOAD_WEIGHT_MEMORY_H_
