// model.adapters and model.named_adapters: what a run adds to its model, and what its requests may.
#ifndef NG_CORE_MODEL_ADAPTERS_OPEN_ADAPTERS_H_
#define NG_CORE_MODEL_ADAPTERS_OPEN_ADAPTERS_H_

#include <string>
#include <vector>

#include "core/config/config.h"
#include "core/formats/key_policy.h"
#include "core/model/adapters/adapter_weights.h"
#include "core/model/files/model_file.h"
#include "ng/status.h"

namespace ng {

struct RunAdapters {
  std::vector<ScaledAdapter> always;  // in the order of the config
  std::vector<ScaledAdapter> named;
  std::vector<std::string> names;  // of each of `named`

  // What is computed with at a time: those of the run, then for each name these with its own. Empty
  // where there are no adapters.
  std::vector<std::vector<const ScaledAdapter*>> Sets() const;
};

// The model's source gives what they replace, so they outlive it. Errors: UsageError for a scale
// that is no number, or where something cannot be had together; ModelFileError as OpenAdapter.
absl::StatusOr<RunAdapters> OpenAdapters(const Config& config, const KeyPolicy& keys,
                                         ModelFile* model);

}  // namespace ng

#endif  // NG_CORE_MODEL_ADAPTERS_OPEN_ADAPTERS_H_
