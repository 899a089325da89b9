#include "apps/common/terminal_text.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/str_format.h"
#include "ng/utf8.h"

namespace ng {
namespace {

// What stands at the begin of a text.
struct FirstCharacter {
  size_t n_bytes = 0;
  uint32_t value = 0;
  bool valid = true;  // UTF-8; otherwise one byte
};

FirstCharacter FirstOf(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const size_t n = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (FindInvalidUtf8(text.substr(0, n)) == std::optional<size_t>(0)) return {1, lead, false};
  uint32_t value = lead & (0xFFU >> (n + 1));
  for (size_t i = 1; i < n; ++i) value = value << 6U | (byte(i) & 0x3FU);
  return {n, value};
}

bool Steers(const FirstCharacter& character) {
  const uint32_t c = character.value;
  if (!character.valid) return true;
  if (c < 0x20) return c != '\n' && c != '\t';
  return (c >= 0x7F && c < 0xA0)           // DEL, and the controls of eight bits
         || (c >= 0x202A && c <= 0x202E)   // the order of what follows
         || (c >= 0x2066 && c <= 0x2069);  // likewise
}

}  // namespace

bool SteersTerminal(std::string_view text) {
  while (!text.empty()) {
    const FirstCharacter first = FirstOf(text);
    if (Steers(first)) return true;
    text.remove_prefix(first.n_bytes);
  }
  return false;
}

std::string TerminalText(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const FirstCharacter first = FirstOf(text);
    if (!Steers(first)) {
      shown += text.substr(0, first.n_bytes);
    } else if (!first.valid) {
      absl::StrAppendFormat(&shown, "<0x%02X>", first.value);
    } else if (first.value < 0x80) {
      shown += {'^', static_cast<char>(first.value ^ 0x40U)};
    } else {
      absl::StrAppendFormat(&shown, "<U+%04X>", first.value);
    }
    text.remove_prefix(first.n_bytes);
  }
  return shown;
}

}  // namespace ng
