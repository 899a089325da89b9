// The patterns by which byte-level BPE splits a text into pieces before it merges.
//
// They are scanners and not regular expressions: one pass over the text, no recursion, and no
// backtracking over more than one run of spaces. Thread: any.
#ifndef NG_CORE_TEXT_BPE_SPLIT_PATTERN_H_
#define NG_CORE_TEXT_BPE_SPLIT_PATTERN_H_

#include <cstddef>
#include <optional>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace ng {

// The patterns that have a scanner.
enum class SplitPattern {
  kGpt2,
  kLlama3,
  kQwen2,
  kJais2,
  kEachNumber,   // each \p{N} by itself
  kNumbers,      // \p{N}+
  kThreeDigits,  // [0-9]{3}
  kPunctuation,  // [\p{P}$+<=>^~|]+
};

struct KnownPattern {
  SplitPattern pattern;
  std::string_view regex;
};

inline constexpr KnownPattern kKnownPatterns[] = {
    {SplitPattern::kGpt2,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::kLlama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::kQwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::kJais2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|)"
     R"(\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"},
    {SplitPattern::kEachNumber, R"(\p{N})"},
    {SplitPattern::kNumbers, R"(\p{N}+)"},
    {SplitPattern::kThreeDigits, "[0-9][0-9][0-9]"},
    {SplitPattern::kPunctuation, R"([\p{P}\$\+<=>\^~\|]+)"},
};

// Its regular expression.
constexpr std::string_view RegexOf(SplitPattern pattern) {
  for (const KnownPattern& known : kKnownPatterns) {
    if (known.pattern == pattern) return known.regex;
  }
  return {};
}

// The one that has exactly this regular expression; nothing for any other text.
std::optional<SplitPattern> SplitPatternOf(std::string_view regex);

// Whether the pattern leaves nothing between its matches in any text.
bool MatchesAnyText(SplitPattern pattern);

// The length of the first piece of a text. Together the pieces are the text.
// REQUIRES: valid UTF-8, not empty.
using FirstPiece = size_t (*)(std::string_view text);
FirstPiece FirstPieceOf(SplitPattern pattern);

// Gives `take` the parts that the pattern cuts such a piece into, mostly one, until it returns
// false. Returns what it returned last.
bool ForEachPart(SplitPattern pattern, std::string_view piece,
                 absl::FunctionRef<bool(std::string_view)> take);

}  // namespace ng

#endif  // NG_CORE_TEXT_BPE_SPLIT_PATTERN_H_
