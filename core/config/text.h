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

// Joins the pieces to one string. (A literal + std::string makes GCC 12 warn of an overlapping
// copy.)
template <typename... Piece>
std::string Cat(const Piece&... pieces) {
  std::string text;
  (text.append(std::string_view{pieces}), ...);
  return text;
}

// The text without the blanks, tabs and line ends at both ends.
std::string_view Trim(std::string_view text);

// Splits at each of the `separators` and trims the pieces. There is one more piece than separators.
std::vector<std::string_view> SplitTrimmed(std::string_view text, std::string_view separators);

// A value as an error message shows it: one line of limited length; "(empty)" for an empty text.
std::string Shown(std::string_view text);

// A value as an INI file has it, quoted if needed, so that ReadIniFile gives it back byte for byte.
// REQUIRES: no NUL byte.
std::string IniValue(std::string_view text);

// The reason why `name` cannot name a key or a section; nothing if it can.
std::optional<std::string> NameFault(std::string_view name);

// The section of a dotted key: the part before its first dot.
std::string_view SectionOf(std::string_view key);

}  // namespace ng

#endif  // NG_CORE_CONFIG_TEXT_H_
