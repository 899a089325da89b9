#include "core/text/regex/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"

namespace ng {
namespace {

constexpr int kBlock = 32;                         // characters of a repeat for each step
constexpr int64_t kMostWeight = int64_t{1} << 30;  // more is not told apart

// Oniguruma's \w: PCRE2's has no marks, and has numbers that are no digits. Of those, Oniguruma has
// the ones of Latin-1.
constexpr std::string_view kWordMembers =
    R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";

// Whether \p{name} is a script, and not a category or another property.
bool IsScript(std::string_view name) {
  const std::string pattern = absl::StrCat("\\p{sc:", View(name), "}");
  int error = 0;
  size_t at = 0;
  pcre2_code* const code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  if (code == nullptr && error == PCRE2_ERROR_HEAP_FAILED) throw std::bad_alloc();
  pcre2_code_free(code);
  return code != nullptr;
}

// How often what stands before it comes.
struct Repeat {
  int64_t least = 0;
  int64_t most = -1;     // -1: any number
  size_t length = 0;     // its bytes in the pattern
  std::string_view way;  // "": as many as can be, "?": as few, "+": as many and none given back
};

// A number at the beginning of a text, -1 where there is none that fits, and its bytes.
std::pair<int64_t, size_t> NumberAt(std::string_view text) {
  const size_t length = std::min(text.find_first_not_of("0123456789"), text.size());
  int64_t number = -1;
  if (!absl::SimpleAtoi(View(text.substr(0, length)), &number)) number = -1;
  return {number, length};
}

// {m}, {m,}, {,n} or {m,n} at the beginning of a text. Any other "{" is a character.
std::optional<Repeat> CountAt(std::string_view text) {
  if (!text.starts_with('{')) return std::nullopt;
  const auto [least, digits] = NumberAt(text.substr(1));
  Repeat repeat = {least, least, 1 + digits, {}};
  const bool has_two = text.substr(repeat.length, 1) == ",";
  if (has_two) {
    const auto [most, more_digits] = NumberAt(text.substr(repeat.length + 1));
    if (digits == 0 && more_digits == 0) return std::nullopt;
    repeat.least = digits == 0 ? 0 : least;
    repeat.most = most;
    repeat.length += 1 + more_digits;
    if (more_digits > 0 && most < 0) return std::nullopt;
  }
  if (text.substr(repeat.length, 1) != "}" || repeat.least < 0) return std::nullopt;
  ++repeat.length;
  // In Ruby's syntax "?" behind one number, and "+" behind any, repeat again what is repeated.
  if (has_two && text.substr(repeat.length, 1) == "?") repeat.way = "?";
  return repeat;
}

std::optional<Repeat> RepeatAt(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (std::string_view("*+?").find(text[0]) == std::string_view::npos) return CountAt(text);
  Repeat repeat = {text[0] == '+' ? 1 : 0, text[0] == '?' ? 1 : -1, 1, {}};
  const std::string_view next = text.substr(1, 1);
  if (next == "?" || next == "+") repeat.way = next;
  return repeat;
}

class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) : rest_(pattern) {}

  absl::StatusOr<PcrePattern> Read() {
    if (rest_.starts_with("(?i)")) Keep(4);
    while (!rest_.empty()) NG_RETURN_IF_ERROR(Part());
    return std::move(made_);
  }

 private:
  // Where a part begins.
  struct Begin {
    size_t text = 0;
    size_t counted = 0;
    int64_t weight = 0;  // of all before it
  };

  static absl::Status Refuse(std::string_view part) {
    return ModelFileError(absl::StrCat("\"", View(part), "\" in a pattern is not supported"));
  }
  void Write(std::string_view bytes) {
    made_.text.append(bytes);
    made_.counted.append(bytes);
  }
  void Keep(size_t n) {
    Write(rest_.substr(0, n));
    rest_.remove_prefix(std::min(n, rest_.size()));
  }
  absl::Status Copy(size_t n) {
    Keep(n);
    return absl::OkStatus();
  }
  // Writes other bytes for the next n.
  absl::Status Put(size_t n, std::string_view bytes) {
    Write(bytes);
    rest_.remove_prefix(n);
    return absl::OkStatus();
  }

  absl::Status Part() {
    constexpr std::string_view kBare = "|^$*+?";
    if (kBare.find(rest_[0]) != kBare.npos) return Copy(1);
    const Begin begin = {made_.text.size(), made_.counted.size(), made_.weight};
    if (rest_[0] == '(') {
      groups_.push_back(begin);
      return Open();
    }
    if (rest_[0] == ')') {
      Keep(1);
      if (groups_.empty()) return absl::OkStatus();  // PCRE2 refuses it
      const Begin group = groups_.back();
      groups_.pop_back();
      Repeats(group, /*is_character=*/false);
      return absl::OkStatus();
    }
    const bool is_character = !rest_.starts_with("\\b");
    made_.weight = std::min(made_.weight + 1, kMostWeight);
    NG_RETURN_IF_ERROR(Character());
    Repeats(begin, is_character);
    return absl::OkStatus();
  }

  absl::Status Character() {
    if (rest_[0] == '\\') return Escape(/*in_class=*/false);
    if (rest_[0] == '[') return Class();
    if (rest_[0] == '{') return Put(1, "\\{");  // PCRE2 of today takes more for a repeat
    size_t length = 1;
    while (length < rest_.size() && (static_cast<uint8_t>(rest_[length]) & 0xC0) == 0x80) ++length;
    return Copy(length);
  }

  // In Ruby's syntax the option "m" means that "." matches a line end.
  absl::Status Open() {
    constexpr std::array<std::string_view, 7> kSame = {
        "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
    if (!rest_.starts_with("(?")) return Copy(1);
    for (const std::string_view group : kSame) {
      if (rest_.starts_with(group)) return Copy(group.size());
    }
    return Refuse(rest_.substr(0, std::min(rest_.find_first_of(":)"), size_t{8})));
  }

  // What repeats a part that has been written; a second one repeats the first.
  void Repeats(const Begin& begin, bool is_character) {
    for (bool first = true; const std::optional<Repeat> repeat = RepeatAt(rest_); first = false) {
      if (!first) {
        made_.text = absl::StrCat(made_.text.insert(begin.text, "(?:"), ")");
        made_.counted = absl::StrCat(made_.counted.insert(begin.counted, "(?:"), ")");
      }
      Write(*repeat, begin, first && is_character);
      rest_.remove_prefix(repeat->length + repeat->way.size());
    }
  }
  void Write(const Repeat& repeat, const Begin& begin, bool is_character) {
    const int64_t times = std::max<int64_t>({repeat.least, repeat.most, 1});
    const int64_t weight = (made_.weight - begin.weight) * std::min(times, kMostWeight);
    made_.weight = std::min(begin.weight + weight, kMostWeight);

    const std::string most = repeat.most < 0 ? "" : absl::StrCat(repeat.most);
    const std::string count = absl::StrCat("{", repeat.least, ",", most, "}");
    absl::StrAppend(&made_.text, count, View(repeat.way));

    const std::string once = made_.counted.substr(begin.counted);
    made_.counted.resize(begin.counted);
    const bool is_atomic = repeat.way == "+";
    const std::string_view way = is_atomic ? "" : repeat.way;
    if (is_atomic) made_.counted += "(?>";
    if (is_character && repeat.most < 0) {
      absl::StrAppend(&made_.counted, once, "{", repeat.least, "}(?:", once, "{", kBlock, "})*",
                      View(way), once, "{0,", kBlock - 1, "}", View(way));
    } else {
      absl::StrAppend(&made_.counted, once, count, View(way));
    }
    if (is_atomic) made_.counted += ")";
  }

  absl::Status Escape(bool in_class) {
    if (rest_.size() < 2) return Refuse("\\");
    const std::string word = absl::StrCat("[", View(kWordMembers), "]");
    switch (rest_[1]) {
      case 's':
        return Put(2, R"(\p{White_Space})");
      case 'S':
        return Put(2, R"(\P{White_Space})");
      case 'w':
        return Put(2, in_class ? kWordMembers : word);
      case 'W':
        if (in_class) return Refuse("\\W in a class");
        return Put(2, absl::StrCat("[^", View(kWordMembers), "]"));
      case 'b':
        if (in_class) return Copy(2);
        return Put(2,
                   absl::StrCat("(?:(?<=", word, ")(?!", word, ")|(?<!", word, ")(?=", word, "))"));
      case 'p':
      case 'P':
      case 'x':
        return Braced();
      case 'v':
        return Put(2, R"(\x0B)");
      case 'u':
        return CodePoint();
      default:
        break;
    }
    if (std::string_view("dDnrtf").find(rest_[1]) != std::string_view::npos) return Copy(2);
    const char next = rest_[1];
    const bool is_word = (next >= '0' && next <= '9') || (next >= 'A' && next <= 'Z') ||
                         (next >= 'a' && next <= 'z');
    return is_word ? Refuse(rest_.substr(0, 2)) : Copy(2);
  }

  // \p{...} or \x{...}
  absl::Status Braced() {
    const size_t end = rest_.substr(2, 1) == "{" ? rest_.find('}') : 1;
    if (end == rest_.npos) return Refuse(rest_.substr(0, 3));
    if (end == 1) return Unbraced();
    if (rest_[1] == 'x' || end < 4) return Copy(end + 1);
    const bool negates = rest_[3] == '^';
    const size_t begin = negates ? 4 : 3;
    const std::string_view name = rest_.substr(begin, end - begin);
    // PCRE2 alone takes a script to have the characters that it shares with others.
    if (!IsScript(name)) return Copy(end + 1);
    return Put(end + 1, absl::StrCat("\\", View(rest_.substr(1, 1)), "{", negates ? "^" : "",
                                     "sc:", View(name), "}"));
  }

  // \pL, \xH or \xHH
  absl::Status Unbraced() {
    if (rest_[1] != 'x') return Copy(3);
    size_t length = 2;
    while (length < std::min<size_t>(rest_.size(), 4) && absl::ascii_isxdigit(rest_[length])) {
      ++length;
    }
    return Copy(length);
  }

  // \uHHHH
  absl::Status CodePoint() {
    const std::string_view digits = rest_.substr(2, 4);
    if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos) {
      return Refuse("\\u");
    }
    return Put(6, absl::StrCat("\\x{", View(digits), "}"));
  }

  absl::Status Class() {
    Keep(rest_.starts_with("[^") ? 2 : 1);
    if (rest_.starts_with(']')) return Refuse("[]");
    while (!rest_.empty() && rest_[0] != ']') NG_RETURN_IF_ERROR(ClassPart());
    return Copy(1);
  }

  absl::Status ClassPart() {
    if (rest_[0] == '\\') return Escape(/*in_class=*/true);
    if (rest_.starts_with("[:")) {
      const size_t end = rest_.find(":]");
      return end == rest_.npos ? Refuse("[:") : Copy(end + 2);
    }
    if (rest_[0] == '[') return Refuse("[ in a class");
    if (rest_.starts_with("&&")) return Refuse("&&");
    return Copy(1);
  }

  std::string_view rest_;
  PcrePattern made_;
  std::vector<Begin> groups_;  // that are open
};

}  // namespace

absl::StatusOr<PcrePattern> ReadPattern(std::string_view pattern) {
  return PatternReader(pattern).Read();
}

}  // namespace ng
