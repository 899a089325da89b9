// What to say about a key that nobody declares.
#ifndef NG_CORE_CONFIG_UNKNOWN_KEY_H_
#define NG_CORE_CONFIG_UNKNOWN_KEY_H_

#include <span>

#include "core/config/config.h"
#include "ng/status.h"

namespace ng {

// UsageError at the entry's place: what is unknown (section, plugin or key) and the nearest known
// name, or all there are. REQUIRES: no key of `keys` is the entry's.
absl::Status UnknownKeyError(const ConfigEntry& entry, std::span<const ConfigKey> keys);

}  // namespace ng

#endif  // NG_CORE_CONFIG_UNKNOWN_KEY_H_
