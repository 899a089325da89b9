// The answer of every program to --version.
#ifndef NG_APPS_COMMON_VERSION_H_
#define NG_APPS_COMMON_VERSION_H_

#include <string>
#include <string_view>

namespace ng {

// The program's name and version, the instruction set level that is chosen, the levels of this CPU,
// and the build tag.
std::string VersionText(std::string_view program);

}  // namespace ng

#endif  // NG_APPS_COMMON_VERSION_H_
