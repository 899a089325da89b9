#include "core/text/unicode.h"

#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/ustring.h>
#include <unicode/utext.h>
#include <unicode/utf16.h>

#include <algorithm>
#include <cassert>
#include <new>

#include "absl/cleanup/cleanup.h"
#include "core/text/newer_characters.h"
#include "ng/utf8.h"

namespace ng {
namespace {

uint32_t TypeOf(char32_t value) { return U_GET_GC_MASK(static_cast<UChar32>(value)); }

bool HasType(char32_t value, uint32_t types) { return (TypeOf(value) & types) != 0; }

// The same by the tables of Unicode 16 at least.
bool HasTypeOf16(char32_t value, uint32_t types) {
  const uint32_t type = TypeOf(value);
  return ((type == U_GC_CN_MASK ? TypeOf(OlderTwin(value)) : type) & types) != 0;
}

UNumericType NumericType(char32_t value) {
  return static_cast<UNumericType>(
      u_getIntPropertyValue(static_cast<UChar32>(value), UCHAR_NUMERIC_TYPE));
}

// Appends what `map` makes of one code point.
template <typename Map>
void AppendMapped(char32_t value, std::string* out, Map map) {
  constexpr int32_t kMost = 8;  // UTF-16 units; the longest mapping there is has 3
  UChar from[2];
  int32_t n = 0;
  U16_APPEND_UNSAFE(from, n, static_cast<UChar32>(value));
  UChar units[kMost];
  UErrorCode error = U_ZERO_ERROR;
  const int32_t length = map(units, kMost, from, n, &error);
  if (U_FAILURE(error) || length > kMost) return AppendUtf8(value, out);
  for (int32_t i = 0; i < length;) {
    UChar32 part = 0;
    U16_NEXT(units, i, length, part);
    AppendUtf8(static_cast<char32_t>(part), out);
  }
}

// The tokenizers library normalises by the tables of Unicode 9: later characters stay as they are.
bool IsOfUnicode9(char32_t value) { return UnicodeVersionOf(value) <= 9; }

uint8_t CombiningClass(char32_t value) {
  const uint8_t mark_class = u_getCombiningClass(static_cast<UChar32>(value));
  return mark_class == 0 || IsOfUnicode9(value) ? mark_class : 0;
}

// ICU's own normalisation moves each mark back over those before it, which is quadratic in a long
// run of marks. So only its data is used here: the decomposition of a code point, and the
// composition of two.
const UNormalizer2* FormData(bool compatible) {
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2* const data =
      compatible ? unorm2_getNFKCInstance(&error) : unorm2_getNFCInstance(&error);
  assert(U_SUCCESS(error));  // built into the library
  return data;
}

void AppendDecomposed(const UNormalizer2* data, char32_t value, std::u32string* out) {
  constexpr int32_t kLongest = 32;  // UTF-16 units; the longest there is has 18
  UChar units[kLongest];
  UErrorCode error = U_ZERO_ERROR;
  const int32_t length =
      unorm2_getDecomposition(data, static_cast<UChar32>(value), units, kLongest, &error);
  if (length < 0 || U_FAILURE(error) || !IsOfUnicode9(value)) {
    out->push_back(value);
    return;
  }
  for (int32_t i = 0; i < length;) {
    UChar32 part = 0;
    U16_NEXT(units, i, length, part);
    out->push_back(static_cast<char32_t>(part));
  }
}

// Sorts each run of marks by their classes.
void OrderMarks(std::u32string* text) {
  const auto is_starter = [](char32_t value) { return CombiningClass(value) == 0; };
  for (auto at = text->begin(); at != text->end();) {
    const auto first = std::find_if_not(at, text->end(), is_starter);
    at = std::find_if(first, text->end(), is_starter);
    std::stable_sort(first, at,
                     [](char32_t a, char32_t b) { return CombiningClass(a) < CombiningClass(b); });
  }
}

// Composes each character with the last starter, if the two have a composite and nothing between
// them prevents it.
void Compose(std::u32string* text) {
  const UNormalizer2* const data = FormData(false);
  size_t n_kept = 0;
  size_t starter = 0;
  bool has_starter = false;
  uint8_t last_class = 0;  // class of the last mark kept after the starter; 0: none
  for (size_t i = 0; i < text->size(); ++i) {  // n_kept <= i
    const char32_t value = (*text)[i];
    const uint8_t mark_class = CombiningClass(value);
    const bool adjacent = has_starter && n_kept == starter + 1;
    const bool apart = !has_starter || (!adjacent && last_class >= mark_class);
    const UChar32 composite = apart
                                  ? -1
                                  : unorm2_composePair(data, static_cast<UChar32>((*text)[starter]),
                                                       static_cast<UChar32>(value));
    if (composite >= 0 && IsOfUnicode9(static_cast<char32_t>(composite))) {
      (*text)[starter] = static_cast<char32_t>(composite);
      continue;
    }
    if (mark_class == 0) {
      starter = n_kept;
      has_starter = true;
    }
    last_class = mark_class;
    (*text)[n_kept++] = value;
  }
  text->resize(n_kept);
}

}  // namespace

CodePoint FirstCodePoint(std::string_view text) {
  assert(!text.empty());
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<char32_t>(static_cast<uint8_t>(text[i])) : 0;
  };
  const auto tail = [&](size_t i) { return byte(i) & 0x3F; };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | tail(1), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | tail(1) << 6 | tail(2), 3};
  return {(lead & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}

CodePoint LastCodePoint(std::string_view text) {
  assert(!text.empty());
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return FirstCodePoint(text.substr(at));
}

int UnicodeVersionOf(char32_t value) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(value), age);
  return age[0] == 0 && OlderTwin(value) != value ? 16 : age[0];
}

bool IsLetter(char32_t value) { return HasTypeOf16(value, U_GC_L_MASK); }
bool IsNumber(char32_t value) { return HasTypeOf16(value, U_GC_N_MASK); }
bool IsDecimalNumber(char32_t value) { return HasTypeOf16(value, U_GC_ND_MASK); }
bool IsPunctuation(char32_t value) { return HasTypeOf16(value, U_GC_P_MASK); }
bool IsControl(char32_t value) {
  return HasType(value, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK | U_GC_CS_MASK);
}
bool IsSpace(char32_t value) { return u_isUWhiteSpace(static_cast<UChar32>(value)) != 0; }
bool IsWord(char32_t value) {
  const auto has = [&](UProperty property) {
    return u_hasBinaryProperty(static_cast<UChar32>(OlderTwin(value)), property) != 0;
  };
  return HasTypeOf16(value, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) || has(UCHAR_ALPHABETIC) ||
         has(UCHAR_JOIN_CONTROL);
}

// A few characters have another category since.
bool IsMarkOf9(char32_t value) {
  return HasType(value, U_GC_M_MASK) && IsOfUnicode9(value) && value != 0x111C9;
}
bool IsPunctuationOf8(char32_t value) {
  return value == 0x166D || value == 0x111C9 ||
         (IsPunctuation(value) && UnicodeVersionOf(value) <= 8);
}
bool IsSpacelessMarkOf8(char32_t value) {
  const bool was_other = value == 0x1885 || value == 0x1886 || value == 0xA9BD || value == 0x111C9;
  const bool is_mark = HasType(value, U_GC_MN_MASK) && UnicodeVersionOf(value) <= 8;
  return value == 0x1734 || (is_mark && !was_other);
}

bool IsPrintable(char32_t value) {
  return value == ' ' || !HasType(value, U_GC_C_MASK | U_GC_Z_MASK);
}
bool IsUpper(char32_t value) { return u_isUUppercase(static_cast<UChar32>(value)) != 0; }
bool IsLower(char32_t value) { return u_isULowercase(static_cast<UChar32>(value)) != 0; }
bool IsDecimal(char32_t value) { return NumericType(value) == U_NT_DECIMAL; }
bool IsDigit(char32_t value) { return IsDecimal(value) || NumericType(value) == U_NT_DIGIT; }
bool IsNumeric(char32_t value) { return NumericType(value) != U_NT_NONE; }

void AppendUpper(char32_t value, std::string* out) {
  AppendMapped(value, out,
               [](UChar* to, int32_t room, const UChar* from, int32_t n, UErrorCode* e) {
                 return u_strToUpper(to, room, from, n, "", e);
               });
}
void AppendLower(char32_t value, std::string* out) {
  if (TypeOf(value) == U_GC_CN_MASK) return AppendUtf8(NewerLower(value), out);
  AppendMapped(value, out,
               [](UChar* to, int32_t room, const UChar* from, int32_t n, UErrorCode* e) {
                 return u_strToLower(to, room, from, n, "", e);
               });
}
void AppendTitle(char32_t value, std::string* out) {
  if (value < 0x80) return AppendUpper(value, out);
  AppendMapped(value, out,
               [](UChar* to, int32_t room, const UChar* from, int32_t n, UErrorCode* e) {
                 return u_strToTitle(to, room, from, n, nullptr, "", e);
               });
}

std::string Normalize(std::string_view text, NormalForm form) {
  const auto is_ascii = [](char byte) { return static_cast<uint8_t>(byte) < 0x80; };
  if (std::ranges::all_of(text, is_ascii)) return std::string(text);
  const UNormalizer2* const data = FormData(form == NormalForm::kKc || form == NormalForm::kKd);
  std::u32string decomposed;
  decomposed.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) {
    const CodePoint first = FirstCodePoint(rest);
    AppendDecomposed(data, first.value, &decomposed);
    rest.remove_prefix(first.length);
  }
  OrderMarks(&decomposed);
  if (form == NormalForm::kC || form == NormalForm::kKc) Compose(&decomposed);
  std::string normalized;
  normalized.reserve(text.size());
  for (const char32_t value : decomposed) AppendUtf8(value, &normalized);
  return normalized;
}

void ForEachGrapheme(std::string_view text, absl::FunctionRef<void(std::string_view)> take) {
  UErrorCode error = U_ZERO_ERROR;
  UText* const utf8 =
      utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &error);
  UBreakIterator* const breaks = ubrk_open(UBRK_CHARACTER, "", nullptr, 0, &error);
  const absl::Cleanup close = [&] {
    ubrk_close(breaks);
    utext_close(utf8);
  };
  if (U_SUCCESS(error)) ubrk_setUText(breaks, utf8, &error);
  if (U_FAILURE(error)) throw std::bad_alloc();  // the data is built into the library
  size_t begin = 0;
  for (int32_t end = ubrk_next(breaks); end != UBRK_DONE; end = ubrk_next(breaks)) {
    take(text.substr(begin, static_cast<size_t>(end) - begin));
    begin = static_cast<size_t>(end);
  }
}

}  // namespace ng
