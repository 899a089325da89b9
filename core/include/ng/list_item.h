// A text as a list of the config holds it: what a config key that takes several texts, such as
// sampler.stop_texts.texts, reads back as this text and no other.
//
// Thread: pure functions.
#ifndef NG_LIST_ITEM_H_
#define NG_LIST_ITEM_H_

#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace ng {

// Nothing where no list can hold it: kListItemWords says which.
std::optional<std::string> ListItem(std::string_view text);
inline constexpr const char* kListItemWords =
    "none of which is empty, holds a NUL, or begins or ends with \\r, \\v or \\f";

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_LIST_ITEM_H_
