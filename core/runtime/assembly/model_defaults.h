// The sampling that a model's makers suggest, as config entries below the user's own.
//
// Called while a config is read ([load]).
#ifndef NG_CORE_RUNTIME_ASSEMBLY_MODEL_DEFAULTS_H_
#define NG_CORE_RUNTIME_ASSEMBLY_MODEL_DEFAULTS_H_

#include <span>
#include <string>
#include <vector>

#include "core/config/config.h"
#include "core/model/files/suggested_sampling.h"

namespace ng {

// The entries that the suggestions become where `entries` say nothing: the chain that transformers
// would run, and the values of its stages; only the values where the chain is named. None with
// run.model_defaults = false, and none where nothing is suggested. Errors: a bad value of that key.
absl::StatusOr<std::vector<ConfigEntry>> ModelDefaults(const SamplingSuggestions& suggestions,
                                                       std::span<const ConfigEntry> entries);

// What is suggested and the config does otherwise, as half a sentence (Engine::unused_sampling).
std::string UnusedSampling(const SamplingSuggestions& suggestions, const Config& config);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_ASSEMBLY_MODEL_DEFAULTS_H_
