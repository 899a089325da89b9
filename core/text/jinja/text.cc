#include "core/text/jinja/text.h"

#include <algorithm>

namespace ng::jinja {

Text Text::Slice(size_t begin, size_t n) const {
  Text slice;
  slice.bytes_ = bytes_.substr(begin, n);
  slice.origins_ = origins_.substr(begin, n);
  slice.safe_ = safe_;
  return slice;
}

Origin Text::origin() const {
  const bool any = origins_.find(static_cast<char>(Origin::kData)) != std::string::npos;
  return any ? Origin::kData : Origin::kTemplate;
}

std::vector<size_t> Text::Characters() const {
  std::vector<size_t> begins;
  begins.reserve(bytes_.size() + 1);
  for (size_t i = 0; i < bytes_.size(); ++i) {
    if ((static_cast<unsigned char>(bytes_[i]) & 0xC0) != 0x80) begins.push_back(i);
  }
  begins.push_back(bytes_.size());
  return begins;
}

size_t CountCharacters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

bool IsPythonSpace(char32_t c) { return IsSpace(c) || (c >= 0x1C && c <= 0x1F); }

Extent Strip(std::string_view text, Side side, const std::string* chars) {
  std::vector<char32_t> stripped;  // ascending
  for (size_t i = 0; chars != nullptr && i < chars->size();) {
    const CodePoint c = FirstCodePoint(std::string_view(*chars).substr(i));
    stripped.push_back(c.value);
    i += c.length;
  }
  std::ranges::sort(stripped);
  const auto goes = [&](char32_t c) {
    return chars == nullptr ? IsPythonSpace(c) : std::ranges::binary_search(stripped, c);
  };
  Extent left = {0, text.size()};
  while (side != Side::kRight && left.begin < left.end) {
    const CodePoint first = FirstCodePoint(text.substr(left.begin));
    if (!goes(first.value)) break;
    left.begin += first.length;
  }
  while (side != Side::kLeft && left.begin < left.end) {
    const CodePoint last = LastCodePoint(text.substr(0, left.end));
    if (!goes(last.value)) break;
    left.end -= last.length;
  }
  return left;
}

}  // namespace ng::jinja
