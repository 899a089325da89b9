// The alphabet of byte-level BPE: each byte as one printable character.
//
// A byte that is a printable character of Latin-1 stands for itself. The other bytes, in order, are
// the characters from U+0100 on.
#ifndef NG_CORE_TEXT_BPE_BYTE_ALPHABET_H_
#define NG_CORE_TEXT_BPE_BYTE_ALPHABET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ng {

// The character of a byte.
char32_t ByteLevelChar(uint8_t byte);
// The characters of bytes.
std::string ByteLevelText(std::string_view bytes);
// The bytes that a token spells; nothing when it has a character outside the alphabet.
// REQUIRES: valid UTF-8.
std::optional<std::string> ByteLevelBytes(std::string_view token);

}  // namespace ng

#endif  // NG_CORE_TEXT_BPE_BYTE_ALPHABET_H_
