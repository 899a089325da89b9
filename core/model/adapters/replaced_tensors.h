// The tensors that adapters hold as a whole (modules_to_save of PEFT), in place of the model's own.
#ifndef NG_CORE_MODEL_ADAPTERS_REPLACED_TENSORS_H_
#define NG_CORE_MODEL_ADAPTERS_REPLACED_TENSORS_H_

#include <memory>
#include <span>

#include "core/formats/tensor_source.h"
#include "core/model/adapters/adapter_weights.h"
#include "core/model/files/model_file.h"
#include "ng/status.h"

namespace ng {

// Makes the model's source give these tensors, and its bindings ask for them. Where no adapter
// replaces any, nothing changes. Borrows the adapters. Errors: UsageError where an adapter with
// such tensors does not count as it was trained, or two adapters replace one tensor.
absl::Status ReplaceTensors(std::span<const ScaledAdapter> adapters, ModelFile* model);

}  // namespace ng

#endif  // NG_CORE_MODEL_ADAPTERS_REPLACED_TENSORS_H_
