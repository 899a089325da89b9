#include "core/text/bpe/byte_alphabet.h"

#include <array>

#include "core/text/unicode.h"
#include "ng/utf8.h"

namespace ng {
namespace {

constexpr int kBytes = 256;
constexpr char32_t kFirstOfOthers = 0x100;

constexpr bool StandsForItself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, kBytes> kChars = [] {
  std::array<char32_t, kBytes> chars{};
  char32_t next = kFirstOfOthers;
  for (int byte = 0; byte < kBytes; ++byte) {
    chars[byte] = StandsForItself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return chars;
}();

// The byte of each character up to the highest one that occurs; -1: none.
constexpr std::array<int, 2 * kBytes> kByteOf = [] {
  std::array<int, 2 * kBytes> bytes{};
  bytes.fill(-1);
  for (int byte = 0; byte < kBytes; ++byte) bytes[kChars[byte]] = byte;
  return bytes;
}();

}  // namespace

char32_t ByteLevelChar(uint8_t byte) { return kChars[byte]; }

std::string ByteLevelText(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) AppendUtf8(ByteLevelChar(static_cast<uint8_t>(byte)), &text);
  return text;
}

std::optional<std::string> ByteLevelBytes(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  while (!token.empty()) {
    const CodePoint first = FirstCodePoint(token);
    if (first.value >= kByteOf.size() || kByteOf[first.value] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteOf[first.value]);
    token.remove_prefix(first.length);
  }
  return bytes;
}

}  // namespace ng
