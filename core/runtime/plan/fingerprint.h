// The fingerprint of an assembled run (ng/fingerprint.h).
#ifndef NG_CORE_RUNTIME_PLAN_FINGERPRINT_H_
#define NG_CORE_RUNTIME_PLAN_FINGERPRINT_H_

#include <cstdint>

#include "core/runtime/assembly/assembly.h"
#include "ng/fingerprint.h"
#include "ng/status.h"

namespace ng {

// Reads the libraries of the plugins. weights_hash: ModelWeights::hash. Errors: PluginError for a
// library that cannot be read.
absl::StatusOr<RunFingerprint> FingerprintOf(const Assembly& assembly, uint64_t weights_hash);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_PLAN_FINGERPRINT_H_
