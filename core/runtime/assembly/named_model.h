// model.path as the name of a model (ng/named_models.h).
#ifndef NG_CORE_RUNTIME_ASSEMBLY_NAMED_MODEL_H_
#define NG_CORE_RUNTIME_ASSEMBLY_NAMED_MODEL_H_

#include <string>
#include <vector>

#include "core/config/config.h"
#include "core/model/files/suggested_sampling.h"
#include "core/model/names/ollama_store.h"
#include "ng/status.h"

namespace ng {

struct NameOfModel {
  SamplingSuggestions sampling;  // of those who know the model by the name
  ForeignTemplate foreign_template;
  std::string unknown;  // model.path is neither a path nor a name: what to say of that
};

// Where the entries give a name in place of a path, the model's path takes its place, and what
// comes with the name counts where no entry says anything. Errors: those of FindModel, and of a bad
// value of model.path or model.folders.
absl::StatusOr<NameOfModel> ResolveModelName(std::vector<ConfigEntry>* entries);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_ASSEMBLY_NAMED_MODEL_H_
