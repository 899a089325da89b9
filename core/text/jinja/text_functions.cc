#include "core/text/jinja/text_functions.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "core/base/absl_view.h"
#include "core/text/find.h"
#include "core/text/unicode.h"

namespace ng::jinja {
namespace {

CodePoint At(const Text& text, size_t i) {
  return FirstCodePoint(std::string_view(text.bytes()).substr(i));
}

Text Part(const Text& text, size_t begin, size_t end) { return text.Slice(begin, end - begin); }

// The next stretch of text without spaces at or after `i`.
Extent NextWord(const Text& text, size_t i) {
  while (i < text.size() && IsPythonSpace(At(text, i).value)) i += At(text, i).length;
  Extent word = {i, i};
  while (word.end < text.size() && !IsPythonSpace(At(text, word.end).value)) {
    word.end += At(text, word.end).length;
  }
  return word;
}

std::vector<Text> SplitAtSpaces(const Text& text, int64_t most) {
  std::vector<Text> parts;
  for (Extent word = NextWord(text, 0); word.begin < text.size(); word = NextWord(text, word.end)) {
    if (most >= 0 && std::ssize(parts) == most) {
      parts.push_back(text.Slice(word.begin));
      break;
    }
    parts.push_back(Part(text, word.begin, word.end));
  }
  return parts;
}

std::vector<Text> SplitAtSpacesFromRight(const Text& text, int64_t most) {
  std::vector<Extent> words;
  for (Extent word = NextWord(text, 0); word.begin < text.size(); word = NextWord(text, word.end)) {
    words.push_back(word);
  }
  std::vector<Text> parts;
  const auto n = std::ssize(words);
  const int64_t together = most >= 0 && n > most ? n - most : 0;
  if (together > 0) {
    parts.push_back(text.Slice(0, words[static_cast<size_t>(together - 1)].end));
  }
  for (auto i = static_cast<size_t>(together); i < words.size(); ++i) {
    parts.push_back(Part(text, words[i].begin, words[i].end));
  }
  return parts;
}

std::string Cleaned(std::string_view text) {
  const Extent left = Strip(text, Side::kBoth);
  std::string digits(text.substr(left.begin, left.end - left.begin));
  // An underscore stands between two digits only.
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] != '_') continue;
    const bool between = i > 0 && i + 1 < digits.size() &&
                         absl::ascii_isxdigit(static_cast<unsigned char>(digits[i - 1])) &&
                         absl::ascii_isxdigit(static_cast<unsigned char>(digits[i + 1]));
    if (!between) return "";
  }
  std::erase(digits, '_');
  return digits;
}

}  // namespace

std::vector<size_t> CharactersOf(Run& run, const Text& text) {
  const bool may = run.Read(text.size()) && run.HasRoom(static_cast<int64_t>(8 * text.size()));
  return may ? text.Characters() : std::vector<size_t>{0};
}

Text Escaped(const Text& text) {
  if (text.safe()) return text;
  Text out;
  out.Reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text.bytes()[i];
    const std::string_view escaped = c == '&'    ? "&amp;"
                                     : c == '<'  ? "&lt;"
                                     : c == '>'  ? "&gt;"
                                     : c == '"'  ? "&#34;"
                                     : c == '\'' ? "&#39;"
                                                 : std::string_view(&c, 1);
    out.Append(escaped, text.OriginAt(i));
  }
  out.set_safe(true);
  return out;
}

Text WithCase(const Text& text, Letters letters) {
  Text out;
  out.set_safe(text.safe() && letters != Letters::kWords);
  out.Reserve(text.size());
  bool begins = true;  // a word, or the text
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = At(text, i);
    std::string mapped;
    if (letters == Letters::kUpper || (begins && letters == Letters::kWords)) {
      AppendUpper(c.value, &mapped);
    } else if (begins && letters != Letters::kLower) {
      AppendTitle(c.value, &mapped);
    } else {
      AppendLower(c.value, &mapped);
    }
    out.Append(mapped, text.OriginAt(i));
    if (letters == Letters::kWords) {
      begins = IsPythonSpace(c.value) ||
               (c.value < 0x80 && std::string_view("-({[<").find(static_cast<char>(c.value)) !=
                                      std::string_view::npos);
    } else {
      begins = letters == Letters::kTitle && !IsUpper(c.value) && !IsLower(c.value);
    }
    i += c.length;
  }
  return out;
}

Text ReplaceIn(Run& run, const Text& text, const Text& old, const Text& by, int64_t most) {
  Text out;
  size_t done = 0;
  const auto add = [&](const Text& from, size_t begin, size_t n) {
    out.Append(from, begin, n);
    return run.Work(1) && run.Read(n) && run.HasRoom(2 * static_cast<int64_t>(out.size()));
  };
  if (!run.Read(text.size() + old.size())) return {};
  for (int64_t n = 0; most < 0 || n < most; ++n) {
    // Nothing is found before each character and at the end.
    size_t at = old.empty() ? (n == 0 ? 0 : done) : FindFirst(text.bytes(), old.bytes(), done);
    if (old.empty() && n > 0) {
      at = done < text.size() ? done + At(text, done).length : std::string::npos;
    }
    if (at == std::string::npos || !add(text, done, at - done) || !add(by, 0, by.size())) break;
    done = at + old.size();
  }
  out.Append(text, done, text.size() - done);
  return out;
}

Text Justify(Run& run, const Text& text, int64_t width, const Text& fill, Side stays) {
  const int64_t missing = width - static_cast<int64_t>(CountCharacters(text.bytes()));
  if (missing <= 0) return text;
  if (missing > run.limits().bytes ||
      !run.HasRoom(missing * 2 * static_cast<int64_t>(fill.size())) || !run.Work(missing / 16)) {
    run.Fail("a text is made too wide");
    return {};
  }
  // Python's center: where the places cannot be shared, an odd width puts more on the left.
  int64_t before = stays == Side::kLeft ? 0 : missing;
  if (stays == Side::kBoth) before = missing / 2 + (missing & width & 1);
  Text out;
  for (int64_t i = 0; i < before; ++i) out.Append(fill);
  out.Append(text);
  for (int64_t i = before; i < missing; ++i) out.Append(fill);
  out.set_safe(text.safe());
  return out;
}

std::vector<Text> SplitLines(const Text& text, bool with_ends, bool only_newlines) {
  std::vector<Text> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = At(text, i);
    const size_t at = i;
    i += c.length;
    const bool ends = c.value == '\n' ||
                      (!only_newlines && ((c.value >= 0x0B && c.value <= 0x0D) ||
                                          (c.value >= 0x1C && c.value <= 0x1E) || c.value == 0x85 ||
                                          c.value == 0x2028 || c.value == 0x2029));
    if (!ends) continue;
    if (!only_newlines && c.value == '\r' && i < text.size() && text.bytes()[i] == '\n') ++i;
    lines.push_back(Part(text, begin, with_ends ? i : at));
    begin = i;
  }
  if (begin < text.size() || only_newlines) lines.push_back(text.Slice(begin));
  return lines;
}

std::vector<Text> Split(const Text& text, const Text* by, int64_t most, bool from_right) {
  if (by == nullptr) {
    return from_right ? SplitAtSpacesFromRight(text, most) : SplitAtSpaces(text, most);
  }
  std::vector<Text> parts;
  if (!from_right) {
    size_t done = 0;
    for (int64_t n = 0; most < 0 || n < most; ++n) {
      const size_t at = FindFirst(text.bytes(), by->bytes(), done);
      if (at == std::string::npos) break;
      parts.push_back(Part(text, done, at));
      done = at + by->size();
    }
    parts.push_back(text.Slice(done));
    return parts;
  }
  size_t end = text.size();
  for (int64_t n = 0; (most < 0 || n < most) && end >= by->size(); ++n) {
    const size_t at = FindLast(std::string_view(text.bytes()).substr(0, end), by->bytes());
    if (at == std::string::npos) break;
    parts.push_back(Part(text, at + by->size(), end));
    end = at;
  }
  parts.push_back(text.Slice(0, end));
  std::ranges::reverse(parts);
  return parts;
}

bool ParseInteger(std::string_view text, int64_t base, int64_t* value) {
  std::string digits = Cleaned(text);
  bool negative = false;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    negative = digits[0] == '-';
    digits.erase(0, 1);
  }
  if (base < 2 || base > 36) return false;
  const std::string prefix = absl::AsciiStrToLower(digits.substr(0, 2));
  if ((base == 16 && prefix == "0x") || (base == 8 && prefix == "0o") ||
      (base == 2 && prefix == "0b")) {
    digits.erase(0, 2);
  }
  if (digits.empty() || digits[0] == '-') return false;
  if (negative) digits.insert(0, "-");
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, *value, static_cast<int>(base));
  return read.ec == std::errc() && read.ptr == end;
}

bool ParseFloat(std::string_view text, double* value) {
  std::string digits = Cleaned(text);
  bool negative = false;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    negative = digits[0] == '-';
    digits.erase(0, 1);
  }
  if (digits.empty() || digits[0] == '-') return false;
  const bool is_name = absl::EqualsIgnoreCase(digits, "inf") ||
                       absl::EqualsIgnoreCase(digits, "infinity") ||
                       absl::EqualsIgnoreCase(digits, "nan");
  if (!is_name && absl::ascii_isalpha(static_cast<unsigned char>(digits[0]))) return false;
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, *value);
  if (read.ptr != end) return false;
  if (read.ec == std::errc::result_out_of_range) {
    *value = digits.find("e-") == std::string::npos && digits.find("E-") == std::string::npos
                 ? std::numeric_limits<double>::infinity()
                 : 0;
  }
  if (negative) *value = -*value;
  return true;
}

}  // namespace ng::jinja
