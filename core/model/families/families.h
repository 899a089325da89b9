// The model families: a table of them (family.h), by their names in config.json.
//
// What a family's models are made of is in their ModelSpec; a role that a
// model does not have (a bias, say) has no shape, and no tensor is asked for.
#ifndef NG_CORE_MODEL_FAMILIES_FAMILIES_H_
#define NG_CORE_MODEL_FAMILIES_FAMILIES_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "core/formats/json.h"
#include "core/formats/tensor_source.h"
#include "core/model/families/family.h"
#include "core/model/spec/model_spec.h"
#include "core/model/weights/tensor_roles.h"
#include "ng/status.h"

namespace ng {

// The family that a config.json names. Errors: ModelFileError listing those that are known.
absl::StatusOr<const Family*> FindFamily(const JsonFields& config, const std::string& path);

// How a file of the family holds its experts: as the family does, unless it has none of these names
// and has others.
ExpertTensors ExpertTensorsIn(const TensorSource& tensors, const Family& family,
                              const ModelSpec& spec);

// Calls `visit` with every role that a model of this spec has, its place and its tensor's name; a
// tied head too, which a file may hold a second time.
void ForEachTensor(
    const Family& family, const ModelSpec& spec, ExpertTensors experts,
    absl::FunctionRef<void(const RoleName& entry, const TensorSite& at, const std::string& name)>
        visit);

}  // namespace ng

#endif  // NG_CORE_MODEL_FAMILIES_FAMILIES_H_
