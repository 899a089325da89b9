#include "core/config/text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "ng/utf8.h"

namespace ng {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

bool IsControl(char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); }

}  // namespace

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::vector<std::string_view> SplitTrimmed(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> pieces;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find_first_of(separators, begin);
    pieces.push_back(Trim(text.substr(begin, end - begin)));
    if (end == std::string_view::npos) return pieces;
    begin = end + 1;
  }
}

std::string Shown(std::string_view text) {
  constexpr size_t kLongestShown = 80;
  if (text.empty()) return "(empty)";
  const std::string_view head = Utf8Prefix(text, kLongestShown);
  std::string shown;
  for (const char c : head) {
    if (IsControl(c)) {
      shown += absl::CHexEscape({&c, 1});
    } else {
      shown += c;
    }
  }
  if (head.size() < text.size()) shown += "... (" + std::to_string(text.size()) + " bytes)";
  return shown;
}

std::string IniValue(std::string_view text) {
  const bool plain = Trim(text).size() == text.size() && !text.starts_with('"') &&
                     text.find('#') == std::string_view::npos &&
                     std::none_of(text.begin(), text.end(), IsControl);
  if (plain) return std::string(text);
  return '"' + absl::Utf8SafeCEscape({text.data(), text.size()}) + '"';
}

std::optional<std::string> NameFault(std::string_view name) {
  constexpr size_t kLongestName = 200;
  if (name.empty()) return "must not be empty";
  if (name.size() > kLongestName) {
    return "must be at most " + std::to_string(kLongestName) + " bytes long";
  }
  const bool clean = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  });
  if (!clean) return "must be made of letters, digits, '_', '-' and '.'";
  return std::nullopt;
}

std::string_view SectionOf(std::string_view key) { return key.substr(0, key.find('.')); }

}  // namespace ng
