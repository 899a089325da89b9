// What several of the suites do with texts.
#ifndef NG_CORE_CONFORM_TEXTS_H_
#define NG_CORE_CONFORM_TEXTS_H_

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ng::conform {

inline std::string Text(const absl::Status& status) { return std::string(status.message()); }

inline bool Lists(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::count(names, name) != 0;
}

}  // namespace ng::conform

#endif  // NG_CORE_CONFORM_TEXTS_H_
