// Where a long text can be cut so that its parts encode as the whole does: before a space behind
// another character, where no token has such a place within it. What is merged of a text takes many
// times its memory; of a part it does not matter.
#ifndef NG_CORE_TEXT_TEXT_PARTS_H_
#define NG_CORE_TEXT_TEXT_PARTS_H_

#include <cstddef>
#include <string_view>

namespace ng {

// How SentencePiece's tokens show a space.
inline constexpr char kShownSpace[] = "\u2581";
inline constexpr size_t kPartBytes = size_t{1} << 16;

// Whether a token has a space, shown or not, behind another character.
bool SpansASpace(std::string_view token);

// Where a part ends that has about kPartBytes: before `space`. The text's end where it has no such
// place.
size_t EndOfPart(std::string_view text, std::string_view space);

// The end of the character that has the byte before `at`. REQUIRES: valid UTF-8.
size_t EndOfCharacter(std::string_view text, size_t at);

}  // namespace ng

#endif  // NG_CORE_TEXT_TEXT_PARTS_H_
