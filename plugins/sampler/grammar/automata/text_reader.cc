#include "plugins/sampler/grammar/automata/text_reader.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace ng::grammar {

uint32_t TextReader::Character() {
  const auto byte = [&](size_t i) {
    return i < rest().size() ? static_cast<uint8_t>(rest()[i]) : uint8_t{0};
  };
  const uint8_t first = byte(0);
  const size_t size = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  uint32_t code = size == 1 ? first : first & (0x7FU >> size);
  bool legal = size == 1 || (first >= 0xC2 && first <= 0xF4);
  for (size_t i = 1; i < size; ++i) {
    legal &= (byte(i) & 0xC0) == 0x80;
    code = (code << 6) | (byte(i) & 0x3F);
  }
  legal &= code >= kLeast[size] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
  if (!legal) {
    Fail("is no UTF-8");
    return 0xFFFD;
  }
  at_ += size;
  return code;
}

uint32_t TextReader::Hex(int n) {
  uint32_t value = 0;
  for (int i = 0; i < n; ++i) {
    if (AtEnd() || !absl::ascii_isxdigit(static_cast<uint8_t>(text_[at_]))) {
      Fail(absl::StrCat("has fewer than ", n, " hexadecimal digits"));
      return 0;
    }
    const char c = absl::ascii_tolower(static_cast<uint8_t>(text_[at_++]));
    value = value * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return value;
}

int64_t TextReader::Count() {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (!SeesAny("0123456789")) Fail("lacks a number");
  int64_t n = 0;
  for (; SeesAny("0123456789"); ++at_) {
    n = n * 10 + (text_[at_] - '0');
    if (n <= kMost) continue;
    Fail(absl::StrCat("has a count above ", kMost));
    break;
  }
  return n;
}

void TextReader::Fail(std::string_view what) {
  if (status_.ok()) {
    constexpr size_t kShown = 20;
    const std::string near =
        AtEnd() ? "at its end" : absl::StrCat("near '", OneLine(rest().substr(0, kShown)), "'");
    status_ = UsageError(absl::StrCat(std::string(what), " at character ", at_, ", ", near));
  }
  at_ = text_.size();
}

}  // namespace ng::grammar
