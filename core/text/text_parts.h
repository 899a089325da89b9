// Where a long text can be cut so that its parts have the same ids as the whole text: before a
// space that follows another character, if no token contains such a place. Merging takes many times
// the memory of the text that is merged; for a short part this does not matter.
#ifndef NG_CORE_TEXT_TEXT_PARTS_H_
#define NG_CORE_TEXT_TEXT_PARTS_H_

#include <cstddef>
#include <string_view>

namespace ng {

// How SentencePiece's tokens show a space.
inline constexpr char kShownSpace[] = "\u2581";
inline constexpr size_t kPartBytes = size_t{1} << 16;

// Whether a token has a space, shown or not, after another character.
bool SpansASpace(std::string_view token);

// Where a part of about kPartBytes ends: before a `space`. The end of the text if it has no such
// place.
size_t EndOfPart(std::string_view text, std::string_view space);

// The end of the character to which the byte before `at` belongs. REQUIRES: valid UTF-8.
size_t EndOfCharacter(std::string_view text, size_t at);

}  // namespace ng

#endif  // NG_CORE_TEXT_TEXT_PARTS_H_
