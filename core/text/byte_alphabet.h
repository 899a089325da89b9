// The alphabet of byte-level BPE: each byte as one printable character.
//
// Printable bytes of Latin-1 stand for themselves, the others, in order, for U+0100 and up.
#ifndef NG_CORE_TEXT_BYTE_ALPHABET_H_
#define NG_CORE_TEXT_BYTE_ALPHABET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ng {

// The character of a byte.
char32_t ByteLevelChar(uint8_t byte);
// The bytes that a token spells; nothing when a character is not of the alphabet.
// REQUIRES: valid UTF-8.
std::optional<std::string> ByteLevelBytes(std::string_view token);

}  // namespace ng

#endif  // NG_CORE_TEXT_BYTE_ALPHABET_H_
