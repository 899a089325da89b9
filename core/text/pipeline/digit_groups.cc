#include "core/text/pipeline/digit_groups.h"

#include <cstddef>
#include <utility>

#include "core/text/unicode.h"

namespace ng {
namespace {

constexpr size_t kGroup = 3;

constexpr std::pair<std::string_view, DigitGroups> kKnown[] = {
    {R"(\d{1,3}(?=(?:\d{3})*\b))", DigitGroups::kBeforeBoundary},
    {R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))", DigitGroups::kOfNumbers},
    {R"((?=(\d{3})+(?!\d)))", DigitGroups::kBorders}};

// \w as Regex translates it: without the joiners, with some numbers of Latin-1.
bool IsRegexWord(char32_t value) {
  constexpr std::u32string_view kJoiners = U"\u200C\u200D";
  constexpr std::u32string_view kNumbers = U"\u00B2\u00B3\u00B9\u00BC\u00BD\u00BE";
  return (IsWord(value) && kJoiners.find(value) == kJoiners.npos) ||
         kNumbers.find(value) != kNumbers.npos;
}

// Gives the matches in a run of `n_digits`, which is not empty.
bool TakeGroups(DigitGroups kind, std::string_view text, Regex::Match run, size_t n_digits,
                absl::FunctionRef<bool(Regex::Match)> take) {
  size_t begin = run.begin;
  for (size_t at = run.begin; at < run.end;) {
    at += FirstCodePoint(text.substr(at)).length;
    if (--n_digits % kGroup != 0) continue;
    if (kind != DigitGroups::kBorders) {
      if (!take({begin, at})) return false;
    } else if (n_digits > 0 && !take({at, at})) {
      return false;
    }
    begin = at;
  }
  return true;
}

}  // namespace

std::optional<DigitGroups> DigitGroupsOf(std::string_view regex) {
  for (const auto& [known, kind] : kKnown) {
    if (known == regex) return kind;
  }
  return std::nullopt;
}

void ForEachGroup(DigitGroups kind, std::string_view text,
                  absl::FunctionRef<bool(Regex::Match)> take) {
  const auto is_digit = kind == DigitGroups::kOfNumbers ? IsNumber : IsDecimalNumber;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    size_t n_digits = 0;
    CodePoint next = FirstCodePoint(text.substr(at));
    bool is_word = false;  // whether a character that is no digit and that \b knows ends the run
    while (is_digit(next.value)) {
      ++n_digits;
      at += next.length;
      next = {};
      if (at == text.size()) break;
      next = FirstCodePoint(text.substr(at));
      is_word = IsRegexWord(next.value);
    }
    if (n_digits == 0) {
      at += next.length;
      continue;
    }
    if (kind == DigitGroups::kBeforeBoundary && at < text.size() && is_word) continue;
    if (kind == DigitGroups::kBorders && n_digits % kGroup == 0 && !take({begin, begin})) return;
    if (!TakeGroups(kind, text, {begin, at}, n_digits, take)) return;
  }
}

}  // namespace ng
