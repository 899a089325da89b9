// The options of a plugin as keys of the config.
#ifndef NG_CORE_RUNTIME_ASSEMBLY_OPTION_KEYS_H_
#define NG_CORE_RUNTIME_ASSEMBLY_OPTION_KEYS_H_

#include <vector>

#include "core/config/config.h"
#include "core/plugin/loader.h"

namespace ng {

// The config keys that a plugin's options become.
std::vector<ConfigKey> OptionKeys(const LoadedPlugin& plugin);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_ASSEMBLY_OPTION_KEYS_H_
