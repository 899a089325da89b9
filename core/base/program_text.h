// ng's version and build, as identities and errors show it.
#ifndef NG_CORE_BASE_PROGRAM_TEXT_H_
#define NG_CORE_BASE_PROGRAM_TEXT_H_

#include <string>

namespace ng {

std::string ProgramText();

}  // namespace ng

#endif  // NG_CORE_BASE_PROGRAM_TEXT_H_
