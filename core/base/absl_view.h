// Abseil of Debian 12 has a string_view of its own; this is the way from the standard one to it.
#ifndef NG_CORE_BASE_ABSL_VIEW_H_
#define NG_CORE_BASE_ABSL_VIEW_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace ng {

inline absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace ng

#endif  // NG_CORE_BASE_ABSL_VIEW_H_
