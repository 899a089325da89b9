#include "core/text/find.h"

#include <cstring>
#include <vector>

namespace ng {

size_t FindFirst(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const std::string_view rest = text.substr(from);
  if (part.empty()) return from;
  // glibc searches long parts by the two-way algorithm, and short ones with bounded steps.
  const void* const found = ::memmem(rest.data(), rest.size(), part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

// Knuth, Morris and Pratt's, from right to left.
size_t FindLast(std::string_view text, std::string_view part) {
  const size_t n = part.size();
  if (n > text.size()) return std::string_view::npos;
  if (n == 0) return text.size();
  const auto from_right = [](std::string_view of, size_t i) { return of[of.size() - 1 - i]; };
  std::vector<size_t> borders(n);  // of what has been read: how much of it begins the part again
  for (size_t i = 1, matched = 0; i < n; ++i) {
    while (matched > 0 && from_right(part, i) != from_right(part, matched)) {
      matched = borders[matched - 1];
    }
    if (from_right(part, i) == from_right(part, matched)) ++matched;
    borders[i] = matched;
  }
  for (size_t i = 0, matched = 0; i < text.size(); ++i) {
    while (matched > 0 && from_right(text, i) != from_right(part, matched)) {
      matched = borders[matched - 1];
    }
    if (from_right(text, i) == from_right(part, matched)) ++matched;
    if (matched == n) return text.size() - 1 - i;
  }
  return std::string_view::npos;
}

}  // namespace ng
