// What tokenizers ask of Unicode: the code points of a text, their classes, normal forms.
//
// The data is ICU's; no other file knows ICU. What letters, numbers, punctuation, marks and words
// are goes by Unicode 16 at least, the rest by ICU's version. Thread: any.
#ifndef NG_CORE_TEXT_UNICODE_H_
#define NG_CORE_TEXT_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace ng {

struct CodePoint {
  char32_t value = 0;
  size_t length = 0;  // its bytes in the text
};

// The first code point. REQUIRES: `text` is valid UTF-8 and not empty.
CodePoint FirstCodePoint(std::string_view text);
// The last code point. REQUIRES: `text` is valid UTF-8 and not empty.
CodePoint LastCodePoint(std::string_view text);

// The version of Unicode in which a code point has got its meaning, without what follows the point.
int UnicodeVersionOf(char32_t value);
bool IsLetter(char32_t value);         // \p{L}
bool IsNumber(char32_t value);         // \p{N}
bool IsDecimalNumber(char32_t value);  // \p{Nd}
bool IsPunctuation(char32_t value);    // \p{P}
bool IsControl(char32_t value);        // \p{C} without what is unassigned
bool IsSpace(char32_t value);          // \s: White_Space
bool IsWord(char32_t value);           // \w: alphabetic, marks, decimal digits, connectors, joiners
bool IsPrintable(char32_t value);      // no control, surrogate, separator or unassigned character
bool IsMarkOf9(char32_t value);        // \p{M} in Unicode 9
bool IsPunctuationOf8(char32_t value);    // \p{P} in Unicode 8
bool IsSpacelessMarkOf8(char32_t value);  // \p{Mn} in Unicode 8
bool IsUpper(char32_t value);             // Uppercase
bool IsLower(char32_t value);             // Lowercase
bool IsDecimal(char32_t value);           // Numeric_Type=Decimal
bool IsDigit(char32_t value);             // Numeric_Type=Decimal or Digit
bool IsNumeric(char32_t value);           // any Numeric_Type

// The full case mappings of one code point, whatever stands around it.
void AppendUpper(char32_t value, std::string* out);
void AppendLower(char32_t value, std::string* out);
void AppendTitle(char32_t value, std::string* out);

enum class NormalForm { kC, kD, kKc, kKd };

// A normal form of Unicode 9, in O(n log n) for any text. REQUIRES: valid UTF-8.
std::string Normalize(std::string_view text, NormalForm form);

// Calls `take` with each user-perceived character (extended grapheme cluster), in order.
void ForEachGrapheme(std::string_view text, absl::FunctionRef<void(std::string_view)> take);

}  // namespace ng

#endif  // NG_CORE_TEXT_UNICODE_H_
