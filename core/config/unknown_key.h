// The error for a key that nobody declares.
#ifndef NG_CORE_CONFIG_UNKNOWN_KEY_H_
#define NG_CORE_CONFIG_UNKNOWN_KEY_H_

#include <span>

#include "core/config/config.h"
#include "ng/status.h"

namespace ng {

// Returns a UsageError with the entry's place. It says what is unknown (section, plugin or key) and
// names the nearest known name, or all known names. REQUIRES: the entry's key is not in `keys`.
absl::Status UnknownKeyError(const ConfigEntry& entry, std::span<const ConfigKey> keys);

}  // namespace ng

#endif  // NG_CORE_CONFIG_UNKNOWN_KEY_H_
