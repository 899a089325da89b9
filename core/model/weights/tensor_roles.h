// The places in the decoder that weights go to (tensor_role.h), as a table: what each is called,
// its shape, where it is kept, and which type of its block's it decides.
#ifndef NG_CORE_MODEL_WEIGHTS_TENSOR_ROLES_H_
#define NG_CORE_MODEL_WEIGHTS_TENSOR_ROLES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/model/spec/model_spec.h"
#include "core/model/weights/tensor_role.h"

namespace ng {

struct ModelWeights;
struct Place;
struct WeightTypes;

// "attention norm bias"
std::string_view RoleTitle(TensorRole role);
// Whether it is held as a packed matrix, and not as values of f32.
bool IsMatrix(TensorRole role);
// Whether a matmul adds it to its products, or a router to its scores: without it nothing is added.
bool IsAddedBias(TensorRole role);
// The shape of a role's tensor, [outputs, inputs] of a matrix; empty where the model or the layer
// has none. `layer` says nothing for a role that occurs once.
std::vector<int64_t> RoleShape(TensorRole role, const ModelSpec& spec, int layer);
// How many experts a layer has; 0: it is no mixture.
int ExpertsOf(const ModelSpec& spec, int layer);
// Whether each expert has its own.
bool IsOfExpert(TensorRole role);
// How many have their own of a role, experts or heads; 0: it is the layer's or the model's.
int CopiesOf(TensorRole role, const ModelSpec& spec, int layer);
// Where its weights are kept. REQUIRES: it has a shape.
Place RolePlace(TensorRole role, const ModelSpec& spec, const TensorSite& at,
                ModelWeights& weights);
// Sets the types of the matrix that the role is, or is a part of. Of no matrix and of the router,
// which is f32: none. Experts of several types are held as f32, which has all their values; so are
// q and a gate of another type.
void SetRoleType(TensorRole role, const ModelSpec& spec, const TensorSite& at, WeightType type,
                 WeightTypes& types);

}  // namespace ng

#endif  // NG_CORE_MODEL_WEIGHTS_TENSOR_ROLES_H_
