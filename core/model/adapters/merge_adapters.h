// Adapters added to the weights themselves, for a file of packed weights.
#ifndef NG_CORE_MODEL_ADAPTERS_MERGE_ADAPTERS_H_
#define NG_CORE_MODEL_ADAPTERS_MERGE_ADAPTERS_H_

#include "core/model/adapters/adapter_weights.h"
#include "core/model/files/model_file.h"
#include "core/model/weights/weights.h"
#include "ng/executor.h"
#include "ng/status.h"

namespace ng {

// Each weight that they add to is rounded once more to the type that it is held as. `weights` are
// those of the model, read. Errors: UsageError for a type that f32 is not rounded to, or where the
// head is tied to an embedding that they add to.
absl::Status MergeAdapters(const AdapterWeights& adapters, const ModelFile& model,
                           ModelWeights& weights, Executor& executor);

}  // namespace ng

#endif  // NG_CORE_MODEL_ADAPTERS_MERGE_ADAPTERS_H_
