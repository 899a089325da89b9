// The help text of config keys.
#ifndef NG_CORE_CONFIG_HELP_H_
#define NG_CORE_CONFIG_HELP_H_

#include <span>
#include <string>

#include "ng/config.h"

namespace ng {

// As Config::Help.
std::string FormatOptionHelp(std::span<const ConfigKey> keys);

}  // namespace ng

#endif  // NG_CORE_CONFIG_HELP_H_
