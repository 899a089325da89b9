// What every program answers to --version.
#ifndef NG_APPS_COMMON_VERSION_H_
#define NG_APPS_COMMON_VERSION_H_

#include <string>
#include <string_view>

namespace ng {

// The program's name and version, the instruction set level chosen and those there are, the build.
std::string VersionText(std::string_view program);

}  // namespace ng

#endif  // NG_APPS_COMMON_VERSION_H_
