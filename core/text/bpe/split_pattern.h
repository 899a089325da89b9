// The patterns by which byte-level BPE splits a text into pieces before it merges.
//
// They are scanners and not regular expressions: one pass over the text, no recursion, and no
// backtracking over more than one run of spaces. Thread: any.
#ifndef NG_CORE_TEXT_BPE_SPLIT_PATTERN_H_
#define NG_CORE_TEXT_BPE_SPLIT_PATTERN_H_

#include <cstddef>
#include <optional>
#include <string_view>

namespace ng {

// The patterns that have a scanner.
enum class SplitPattern {
  kGpt2,
  kLlama3,
  kQwen2,
  kEachNumber,   // each \p{N} by itself
  kNumbers,      // \p{N}+
  kThreeDigits,  // [0-9]{3}
  kPunctuation,  // [\p{P}$+<=>^~|]+
};

// The one that has exactly this regular expression; nothing for any other text.
std::optional<SplitPattern> SplitPatternOf(std::string_view regex);

// Whether the pattern leaves nothing between its matches in any text.
bool MatchesAnyText(SplitPattern pattern);

// The length of the first piece of a text. Together the pieces are the text.
// REQUIRES: valid UTF-8, not empty.
using FirstPiece = size_t (*)(std::string_view text);
FirstPiece FirstPieceOf(SplitPattern pattern);

}  // namespace ng

#endif  // NG_CORE_TEXT_BPE_SPLIT_PATTERN_H_
