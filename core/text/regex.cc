#include "core/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/formats/json.h"

namespace ng {
namespace {

constexpr size_t kMostPatternBytes = 16384;  // published patterns have up to 700
// What a search may take that is not counted; and what it may take more when that was not enough.
constexpr int64_t kFreeSteps = 256;
constexpr int64_t kMoreSteps = 4;
constexpr int64_t kMostSteps = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kMostHeapKib = 256 << 10;
constexpr size_t kFirstStackBytes = 32 << 10;
constexpr size_t kMostStackBytes = 16 << 20;

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

// Writes the pattern as PCRE2 reads it.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}

  absl::StatusOr<std::string> Translate() {
    while (!rest_.empty()) NG_RETURN_IF_ERROR(in_class_ ? ClassPart() : Part());
    return std::move(out_);
  }

 private:
  static absl::Status Refuse(std::string_view part) {
    return ModelFileError(absl::StrCat("\"", View(part), "\" in a pattern is not supported"));
  }
  // Copies bytes to the output.
  absl::Status Copy(size_t n) {
    out_.append(rest_.substr(0, n));
    rest_.remove_prefix(std::min(n, rest_.size()));
    return absl::OkStatus();
  }
  // Writes other bytes for the next n.
  absl::Status Put(size_t n, std::string_view bytes) {
    out_.append(bytes);
    rest_.remove_prefix(n);
    return absl::OkStatus();
  }

  absl::Status Part() {
    if (rest_[0] == '\\') return Escape();
    if (rest_[0] == '[') {
      in_class_ = true;
      NG_RETURN_IF_ERROR(Copy(rest_.starts_with("[^") ? 2 : 1));
      return rest_.starts_with(']') ? Refuse("[]") : absl::OkStatus();
    }
    if (rest_.starts_with("(?")) return Group();
    // After a counted repeat, "+" repeats it again in Ruby and makes it possessive in PCRE2.
    if (rest_[0] == '}' && rest_.substr(1, 1) == "+") return Refuse("}+");
    return Copy(1);
  }

  // Groups with options: in Ruby's syntax "m" means that "." matches a line end.
  absl::Status Group() {
    constexpr std::array<std::string_view, 7> kSame = {
        "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
    // Further on, the alternatives that follow it would be read differently.
    if (out_.empty() && rest_.starts_with("(?i)")) return Copy(4);
    for (const std::string_view group : kSame) {
      if (rest_.starts_with(group)) return Copy(group.size());
    }
    return Refuse(rest_.substr(0, std::min(rest_.find_first_of(":)"), size_t{8})));
  }

  absl::Status Escape() {
    if (rest_.size() < 2) return Refuse("\\");
    const std::string word = absl::StrCat("[", View(kWordMembers), "]");
    switch (rest_[1]) {
      case 's':
        return Put(2, R"(\p{White_Space})");
      case 'S':
        return Put(2, R"(\P{White_Space})");
      case 'w':
        return Put(2, in_class_ ? kWordMembers : word);
      case 'W':
        if (in_class_) return Refuse("\\W in a class");
        return Put(2, absl::StrCat("[^", View(kWordMembers), "]"));
      case 'b':
        if (in_class_) return Copy(2);
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

  // \p{...} or \x{...} as one part, because what follows its "}" is no second repeat.
  absl::Status Braced() {
    const size_t end = rest_.substr(2, 1) == "{" ? rest_.find('}') : 1;
    if (end == rest_.npos) return Refuse(rest_.substr(0, 3));
    if (rest_[1] == 'x' || end < 4) return Copy(end + 1);
    const bool negates = rest_[3] == '^';
    const size_t begin = negates ? 4 : 3;
    const std::string_view name = rest_.substr(begin, end - begin);
    // PCRE2 alone takes a script to have the characters that it shares with others.
    if (!IsScript(name)) return Copy(end + 1);
    return Put(end + 1, absl::StrCat("\\", View(rest_.substr(1, 1)), "{", negates ? "^" : "",
                                     "sc:", View(name), "}"));
  }

  // \uHHHH
  absl::Status CodePoint() {
    const std::string_view digits = rest_.substr(2, 4);
    if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos) {
      return Refuse("\\u");
    }
    return Put(6, absl::StrCat("\\x{", View(digits), "}"));
  }

  absl::Status ClassPart() {
    if (rest_[0] == '\\') return Escape();
    if (rest_.starts_with("[:")) {
      const size_t end = rest_.find(":]");
      return end == rest_.npos ? Refuse("[:") : Copy(end + 2);
    }
    if (rest_[0] == '[') return Refuse("[ in a class");
    if (rest_.starts_with("&&")) return Refuse("&&");
    if (rest_[0] == ']') in_class_ = false;
    return Copy(1);
  }

  std::string_view rest_;
  std::string out_;
  bool in_class_ = false;
};

std::string ErrorText(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// What searches of one thread share.
class Searcher {
 public:
  Searcher()
      : data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(kFirstStackBytes, kMostStackBytes, nullptr)) {
    if (data_ == nullptr || context_ == nullptr) {
      Free();
      throw std::bad_alloc();
    }
    pcre2_set_heap_limit(context_, kMostHeapKib);
    if (stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  ~Searcher() { Free(); }
  Searcher(const Searcher&) = delete;
  Searcher& operator=(const Searcher&) = delete;

  // PCRE2 does not say how many steps it took. So a search that takes more than it may is begun
  // again with some times as many, and the first try's are counted.
  int Search(const pcre2_code* code, std::string_view text, size_t from, int64_t& steps_left) {
    for (int64_t most = kFreeSteps;; most = std::min(most * kMoreSteps, kMostSteps)) {
      pcre2_set_match_limit(context_, static_cast<uint32_t>(most));
      const int found = SearchOnce(code, text, from);
      if (found != PCRE2_ERROR_MATCHLIMIT || most > steps_left) return found;
      steps_left -= most;
    }
  }
  Regex::Match match() const {
    const size_t* const ends = pcre2_get_ovector_pointer(data_);
    return {ends[0], ends[1]};
  }

 private:
  int SearchOnce(const pcre2_code* code, std::string_view text, size_t from) {
    const auto match = [&](uint32_t options) {
      return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                         PCRE2_NO_UTF_CHECK | options, data_, context_);
    };
    const int found = match(0);
    // The slow way keeps its state on the heap, which may be larger.
    return found == PCRE2_ERROR_JIT_STACKLIMIT ? match(PCRE2_NO_JIT) : found;
  }
  void Free() {
    pcre2_match_data_free(data_);
    pcre2_match_context_free(context_);
    pcre2_jit_stack_free(stack_);
  }

  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_;  // may be null: a small one is used
};

}  // namespace

absl::StatusOr<Regex> Regex::Compile(std::string_view pattern) {
  if (pattern.size() > kMostPatternBytes) {
    return ModelFileError(absl::StrCat("a pattern has ", pattern.size(), " bytes, must have up to ",
                                       kMostPatternBytes));
  }
  NG_ASSIGN_OR_RETURN(const std::string translated, Translator(pattern).Translate());
  int error = 0;
  size_t at = 0;
  // In Ruby's syntax ^ and $ match at every line.
  pcre2_code* const code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (code == nullptr && error == PCRE2_ERROR_HEAP_FAILED) throw std::bad_alloc();
  if (code == nullptr) {
    return ModelFileError(
        absl::StrCat("the pattern ", JsonExcerpt(std::string(pattern)), ": ", ErrorText(error)));
  }
  Regex regex;
  regex.code_ = std::shared_ptr<pcre2_code>(code, pcre2_code_free);
  regex.pattern_ = pattern;
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it the search is only slower
  return regex;
}

absl::StatusOr<std::optional<Regex::Match>> Regex::Find(std::string_view text, size_t from,
                                                        int64_t& steps_left) const {
  thread_local Searcher searcher;
  const int found =
      searcher.Search(static_cast<const pcre2_code*>(code_.get()), text, from, steps_left);
  if (found == PCRE2_ERROR_NOMATCH) return std::optional<Match>();
  if (found == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
  if (found < 0) {
    return UsageError(absl::StrCat("the tokenizer's pattern ", JsonExcerpt(pattern_),
                                   " cannot split the text: ", ErrorText(found)));
  }
  return std::optional(searcher.match());
}

}  // namespace ng
