// A program's man page, of the same description as its --help.
#ifndef NG_APPS_COMMON_MAN_PAGE_H_
#define NG_APPS_COMMON_MAN_PAGE_H_

#include <string>

#include "apps/common/known_parts.h"
#include "apps/common/manual.h"

namespace ng {

// The page for `man`, in its language (roff). `parts` are those of a manual that describes keys.
std::string ManPage(const Manual& manual, const KnownParts& parts);

}  // namespace ng

#endif  // NG_APPS_COMMON_MAN_PAGE_H_
