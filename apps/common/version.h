// The answer of every program to --version.
#ifndef NG_APPS_COMMON_VERSION_H_
#define NG_APPS_COMMON_VERSION_H_

#include <string>
#include <string_view>

namespace ng {

// The program's name and version, the instruction set level that is chosen, the levels of this CPU,
// and the build tag.
std::string VersionText(std::string_view program);
// The number alone: "0.1.0".
const char* VersionNumber();

}  // namespace ng

#endif  // NG_APPS_COMMON_VERSION_H_
