#include "core/text/bpe/split_pattern.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/text/unicode.h"

namespace ng {
namespace {

using CharClass = bool (*)(char32_t);

bool IsNewline(char32_t value) { return value == '\r' || value == '\n'; }
bool IsOther(char32_t value) {  // [^\s\p{L}\p{N}]
  return !IsSpace(value) && !IsLetter(value) && !IsNumber(value);
}
bool IsPunctuationOrSymbol(char32_t value) {
  constexpr std::u32string_view kSymbols = U"$+<=>^~|";
  return IsPunctuation(value) || kSymbols.find(value) != kSymbols.npos;
}

// The length of the run of this class with which `text` begins, at most `most` characters.
size_t Run(std::string_view text, CharClass is_in, size_t most = SIZE_MAX) {
  size_t at = 0;
  for (; at < text.size() && most > 0; --most) {
    const CodePoint next = FirstCodePoint(text.substr(at));
    if (!is_in(next.value)) break;
    at += next.length;
  }
  return at;
}

// How many characters a text has, at most `most`.
size_t Length(std::string_view text, size_t most) {
  size_t length = 0;
  for (; length < most && !text.empty(); ++length) text.remove_prefix(FirstCodePoint(text).length);
  return length;
}

// Each function below returns the length of the first piece of a text that is not empty.

// 's|'t|'re|'ve|'m|'ll|'d; 0 if it does not match. If case is ignored, the long s is an s.
size_t Contraction(std::string_view text, bool any_case) {
  if (!text.starts_with('\'')) return 0;
  constexpr std::string_view kLongS = "\u017F";
  if (any_case && text.substr(1).starts_with(kLongS)) return 1 + kLongS.size();
  for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
    if (text.size() <= ending.size()) continue;
    bool same = true;
    for (size_t i = 0; i < ending.size(); ++i) {
      const char letter = text[1 + i];
      const bool upper = any_case && letter >= 'A' && letter <= 'Z';
      same = same && (upper ? static_cast<char>(letter - 'A' + 'a') : letter) == ending[i];
    }
    if (same) return 1 + ending.size();
  }
  return 0;
}

//  \s+(?!\S)|\s+ : the run of spaces, without the last one if something follows the run.
size_t Spaces(std::string_view text) {
  const size_t run = Run(text, IsSpace);
  if (run == text.size()) return run;
  const size_t without_last = run - LastCodePoint(text.substr(0, run)).length;
  return without_last > 0 ? without_last : run;
}

size_t Gpt2Piece(std::string_view text) {
  if (const size_t contraction = Contraction(text, false)) return contraction;
  const size_t space = text.starts_with(' ') ? 1 : 0;
  for (const CharClass is_in : {IsLetter, IsNumber, IsOther}) {
    if (const size_t run = Run(text.substr(space), is_in)) return space + run;
  }
  return Spaces(text);
}

// [^\r\n\p{L}\p{N}]?\p{L}+ ; 0 where it does not match.
size_t Word(std::string_view text) {
  if (const size_t letters = Run(text, IsLetter)) return letters;
  const CodePoint first = FirstCodePoint(text);
  if (IsNewline(first.value) || IsNumber(first.value)) return 0;
  const size_t letters = Run(text.substr(first.length), IsLetter);
  return letters == 0 ? 0 : first.length + letters;
}

template <size_t kMostDigits>
size_t Llama3Piece(std::string_view text) {
  if (const size_t contraction = Contraction(text, true)) return contraction;
  if (const size_t word = Word(text)) return word;
  if (const size_t number = Run(text, IsNumber, kMostDigits)) return number;
  const size_t space = text.starts_with(' ') ? 1 : 0;
  if (const size_t others = Run(text.substr(space), IsOther)) {
    const size_t end = space + others;
    return end + Run(text.substr(end), IsNewline);
  }
  // \s*[\r\n]+ : as far as the last line end of the run.
  const size_t last_newline = text.substr(0, Run(text, IsSpace)).find_last_of("\r\n");
  return last_newline == text.npos ? Spaces(text) : last_newline + 1;
}

// Splits into runs of the class, and the texts between them.
template <CharClass kIsIn, size_t kMost = SIZE_MAX>
size_t RunOrGap(std::string_view text) {
  if (const size_t run = Run(text, kIsIn, kMost)) return run;
  return Run(text, [](char32_t value) { return !kIsIn(value); });
}

size_t ThreeDigitsOrGap(std::string_view text) {
  size_t n_digits = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    n_digits = text[at] >= '0' && text[at] <= '9' ? n_digits + 1 : 0;
    if (n_digits == 3) return at == 2 ? 3 : at - 2;
  }
  return text.size();
}

}  // namespace

std::optional<SplitPattern> SplitPatternOf(std::string_view regex) {
  for (const KnownPattern& known : kKnownPatterns) {
    if (known.regex == regex) return known.pattern;
  }
  return std::nullopt;
}

bool MatchesAnyText(SplitPattern pattern) {
  return pattern == SplitPattern::kGpt2 || pattern == SplitPattern::kLlama3 ||
         pattern == SplitPattern::kQwen2 || pattern == SplitPattern::kJais2;
}

FirstPiece FirstPieceOf(SplitPattern pattern) {
  switch (pattern) {
    case SplitPattern::kGpt2:
      return Gpt2Piece;
    case SplitPattern::kLlama3:
    case SplitPattern::kJais2:
      return Llama3Piece<3>;
    case SplitPattern::kQwen2:
      return Llama3Piece<1>;
    case SplitPattern::kEachNumber:
      return RunOrGap<IsNumber, 1>;
    case SplitPattern::kNumbers:
      return RunOrGap<IsNumber>;
    case SplitPattern::kThreeDigits:
      return ThreeDigitsOrGap;
    case SplitPattern::kPunctuation:
      return RunOrGap<IsPunctuationOrSymbol>;
  }
  return nullptr;
}

// Jais2 differs from Llama3 only in this: spaces within a line are cut into as many as a power of
// two. Cut one after the other, each cut would look again for the end of the line.
bool ForEachPart(SplitPattern pattern, std::string_view piece,
                 absl::FunctionRef<bool(std::string_view)> take) {
  if (pattern != SplitPattern::kJais2 || Run(piece, IsSpace) < piece.size() ||
      piece.find_first_of("\r\n") != piece.npos) {
    return take(piece);
  }
  constexpr size_t kMostSpaces = 512;
  for (size_t most = kMostSpaces; !piece.empty(); most /= 2) {
    while (Length(piece, most) == most) {
      const size_t length = Run(piece, IsSpace, most);
      if (!take(piece.substr(0, length))) return false;
      piece.remove_prefix(length);
    }
  }
  return true;
}

}  // namespace ng
