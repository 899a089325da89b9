// What the user probably meant by a name that nobody knows.
//
// Thread: pure functions.
#ifndef NG_NAMES_H_
#define NG_NAMES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace ng {

// The name in `known` that is nearest to `name`, if it is near enough to be what was meant.
std::optional<std::string> NearestName(std::string_view name, std::span<const std::string> known);

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_NAMES_H_
