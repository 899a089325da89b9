// The help text of config keys: what ng-run --help and --list-plugins print.
#ifndef NG_CORE_CONFIG_HELP_H_
#define NG_CORE_CONFIG_HELP_H_

#include <span>
#include <string>

#include "core/config/config.h"

namespace ng {

// Lists each key with its default, its help line and what is allowed, grouped by section. Lines
// have at most 100 columns, unless a word is longer.
//
//   [run]
//     run.threads = 0
//         worker threads; 0: one per physical core (an integer in [0, 1024])
std::string FormatOptionHelp(std::span<const ConfigKey> keys);

}  // namespace ng

#endif  // NG_CORE_CONFIG_HELP_H_
