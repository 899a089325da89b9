// Searches for one text in another, in time that grows as both do, whatever they are: the standard
// library's searches take the product of their lengths.
#ifndef NG_CORE_TEXT_FIND_H_
#define NG_CORE_TEXT_FIND_H_

#include <cstddef>
#include <string_view>

namespace ng {

// Where `part` begins at or after `from`, the first or the last place; npos: nowhere.
size_t FindFirst(std::string_view text, std::string_view part, size_t from = 0);
size_t FindLast(std::string_view text, std::string_view part);

}  // namespace ng

#endif  // NG_CORE_TEXT_FIND_H_
