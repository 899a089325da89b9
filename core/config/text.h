// Small functions over the text of keys and values, shared by the files of this folder.
//
// Thread: pure functions.
#ifndef NG_CORE_CONFIG_TEXT_H_
#define NG_CORE_CONFIG_TEXT_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ng {

// The pieces in one string. (A literal + std::string makes GCC 12 warn of an overlapping copy.)
template <typename... Piece>
std::string Cat(const Piece&... pieces) {
  std::string text;
  (text.append(std::string_view{pieces}), ...);
  return text;
}

// Without blanks, tabs and line ends at both ends.
std::string_view Trim(std::string_view text);

// The pieces between any of the `separators`, trimmed: one more than there are separators.
std::vector<std::string_view> SplitTrimmed(std::string_view text, std::string_view separators);

// A value for an error message: one line, of bounded length, "(empty)" when there is nothing.
std::string Shown(std::string_view text);

// What a value looks like in an INI file, so that ReadIniFile gives it back byte for byte: as it
// is, or quoted. REQUIRES: no NUL byte.
std::string IniValue(std::string_view text);

// Why `name` cannot name a key or a section, or nothing.
std::optional<std::string> NameFault(std::string_view name);

// The section of a dotted key: what stands before its first dot.
std::string_view SectionOf(std::string_view key);

}  // namespace ng

#endif  // NG_CORE_CONFIG_TEXT_H_
