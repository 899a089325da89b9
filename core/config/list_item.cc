#include "ng/list_item.h"

namespace ng {

std::optional<std::string> ListItem(std::string_view text) {
  // Blanks at the ends of a text that cannot be escaped would be dropped.
  constexpr std::string_view kOtherBlanks = "\r\v\f";
  if (text.empty() || text.find('\0') != text.npos ||
      kOtherBlanks.find(text.front()) != kOtherBlanks.npos ||
      kOtherBlanks.find(text.back()) != kOtherBlanks.npos) {
    return std::nullopt;
  }
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == ',' || c == ' ') out += '\\';
    if (c == '\n' || c == '\t') out += '\\';
    out += c == '\n' ? 'n' : c == '\t' ? 't' : c;
  }
  return out;
}

}  // namespace ng
