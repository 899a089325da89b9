#include "core/text/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/absl_view.h"
#include "core/text/jinja/text.h"
#include "core/text/unicode.h"
#include "ng/utf8.h"

namespace ng::jinja {
namespace {

constexpr size_t kMostTokens = 100'000;

// Longer ones first.
constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool IsNameByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9');
}
bool IsAsciiDigit(char c) { return c >= '0' && c <= '9'; }

int HexValue(char c) {
  if (IsAsciiDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& name) : name_(name) {
    source_ = absl::StrReplaceAll(View(source), {{"\r\n", "\n"}, {"\r", "\n"}});
    if (source_.ends_with('\n')) source_.pop_back();  // as Jinja does
    left_ = source_;
  }

  absl::StatusOr<std::vector<Token>> Run() {
    while (status_.ok() && !left_.empty()) Data();
    if (!status_.ok()) return status_;
    Add(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  void Fail(const std::string& what) {
    if (status_.ok()) status_ = ModelFileError(absl::StrCat(name_, ": line ", line_, ": ", what));
  }

  void Add(TokenType type, std::string_view text) {
    if (tokens_.size() >= kMostTokens) {
      return Fail(absl::StrCat("the template has more than ", kMostTokens, " words and signs"));
    }
    tokens_.push_back({type, line_, std::string(text), 0, 0});
  }

  // Moves on, and counts the lines.
  std::string_view Take(size_t n) {
    const std::string_view taken = left_.substr(0, n);
    left_.remove_prefix(taken.size());
    line_ += static_cast<int>(std::ranges::count(taken, '\n'));
    if (!taken.empty()) at_line_begin_ = taken.back() == '\n';
    return taken;
  }
  void TakeSpaces() { Take(Strip(left_, Side::kLeft).begin); }

  // A tag's end: "-" takes the spaces that follow; otherwise one line end goes, where `trims`.
  // Returns false where no end is here.
  bool TakeEnd(std::string_view end, bool trims, bool plus) {
    if (left_.starts_with('-') && left_.substr(1).starts_with(end)) {
      Take(1 + end.size());
      TakeSpaces();
      return true;
    }
    if (plus && left_.starts_with('+') && left_.substr(1).starts_with(end)) {
      Take(1 + end.size());
      return true;
    }
    if (!left_.starts_with(end)) return false;
    Take(end.size());
    if (trims && left_.starts_with('\n')) Take(1);
    return true;
  }

  // The text before a tag, without what the tag takes of it. `sign` stands after its two
  // characters.
  std::string_view WithoutSpaces(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return text.substr(0, Strip(text, Side::kRight).end);
    if (sign == '+' || is_variable) return text;
    const size_t line = text.rfind('\n') + 1;
    if (line == 0 && !at_line_begin_) return text;
    const std::string_view last = text.substr(line);
    return Strip(last, Side::kLeft).begin == last.size() ? text.substr(0, line) : text;
  }

  // Text up to the next tag, and the tag.
  void Data() {
    size_t at = 0;
    while (at < left_.size()) {
      at = left_.find('{', at);
      if (at == std::string_view::npos || at + 1 >= left_.size()) {
        at = left_.size();
      } else if (std::string_view("{%#").find(left_[at + 1]) == std::string_view::npos) {
        ++at;
      } else {
        break;
      }
    }
    if (at >= left_.size()) {
      const std::string_view text = left_;
      Add(TokenType::kData, text);
      Take(text.size());
      return;
    }
    const char kind = left_[at + 1];
    const char sign = at + 2 < left_.size() ? left_[at + 2] : '\0';
    const std::string_view text = WithoutSpaces(left_.substr(0, at), sign, kind == '{');
    if (!text.empty()) Add(TokenType::kData, text);
    Take(at + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (kind == '#') return Comment();
    if (kind == '%' && Raw()) return;
    Add(kind == '{' ? TokenType::kVariableBegin : TokenType::kBlockBegin, "");
    Tag(kind == '{');
  }

  void Comment() {
    const size_t end = left_.find("#}");
    if (end == std::string_view::npos) return Fail("the comment has no end \"#}\"");
    const bool signs = end > 0 && (left_[end - 1] == '-' || left_[end - 1] == '+');
    Take(signs ? end - 1 : end);
    TakeEnd("#}", true, true);
  }

  // {% raw %} ... {% endraw %}. Returns false where another block is here.
  bool Raw() {
    const std::string_view here = left_;
    const int line = line_;
    TakeSpaces();
    if (left_.starts_with("raw")) {
      Take(3);
      TakeSpaces();
      if (TakeEnd("%}", false, false)) {
        RawText();
        return true;
      }
    }
    left_ = here;
    line_ = line;
    return false;
  }

  void RawText() {
    for (size_t at = left_.find("{%"); at != std::string_view::npos;
         at = left_.find("{%", at + 1)) {
      const char sign = at + 2 < left_.size() ? left_[at + 2] : '\0';
      std::string_view rest = left_.substr(at + 2 + (sign == '-' || sign == '+' ? 1 : 0));
      rest.remove_prefix(Strip(rest, Side::kLeft).begin);
      if (!rest.starts_with("endraw")) continue;
      rest.remove_prefix(6);
      rest.remove_prefix(Strip(rest, Side::kLeft).begin);
      if (!rest.starts_with("%}") && !rest.starts_with("-%}") && !rest.starts_with("+%}")) continue;
      const std::string_view text = WithoutSpaces(left_.substr(0, at), sign, false);
      if (!text.empty()) Add(TokenType::kData, text);
      Take(left_.size() - rest.size());
      TakeEnd("%}", true, true);
      return;
    }
    Fail("the block raw has no endraw");
  }

  // What is between a tag's ends. An end counts only where all brackets are closed.
  void Tag(bool is_variable) {
    std::string open;  // the brackets that must be closed
    while (status_.ok()) {
      TakeSpaces();
      if (left_.empty()) {
        return Fail(is_variable ? "\"{{\" has no end \"}}\"" : "\"{%\" has no end \"%}\"");
      }
      if (open.empty()) {
        const int line = line_;
        if (TakeEnd(is_variable ? "}}" : "%}", !is_variable, !is_variable)) {
          Add(is_variable ? TokenType::kVariableEnd : TokenType::kBlockEnd, "");
          if (!tokens_.empty()) tokens_.back().line = line;
          return;
        }
      }
      if (IsAsciiDigit(left_[0])) {
        Number();
      } else if (IsNameByte(left_[0])) {
        const auto end = std::ranges::find_if_not(left_, IsNameByte);
        const auto size = static_cast<size_t>(end - left_.begin());
        Add(TokenType::kName, left_.substr(0, size));
        Take(size);
      } else if (left_[0] == '\'' || left_[0] == '"') {
        TextLiteral();
      } else {
        Operator(&open);
      }
    }
  }

  void Operator(std::string* open) {
    const auto* const found = std::ranges::find_if(
        kOperators, [&](std::string_view known) { return left_.starts_with(known); });
    if (found == std::end(kOperators)) {
      const size_t length = FirstCodePoint(left_).length;
      return Fail(absl::StrCat("unexpected character \"", View(left_.substr(0, length)), "\""));
    }
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') {
      *open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open->empty() || open->back() != c) {
        return Fail(absl::StrCat(
            "unexpected \"", View(*found), "\"",
            open->empty() ? "" : ", must be \"" + open->substr(open->size() - 1) + "\""));
      }
      open->pop_back();
    }
    Add(TokenType::kOperator, *found);
    Take(found->size());
  }

  // The size of digits with single underscores between them.
  size_t Digits(size_t at) const {
    const size_t begin = at;
    while (at < left_.size() &&
           (IsAsciiDigit(left_[at]) || (left_[at] == '_' && at > begin && at + 1 < left_.size() &&
                                        IsAsciiDigit(left_[at + 1])))) {
      ++at;
    }
    return at - begin;
  }

  void Number() {
    size_t end = Digits(0);
    bool is_float = false;
    // 1.0 is a float; in a.0.1 the numbers are places in lists.
    const bool after_dot = !tokens_.empty() && tokens_.back().IsOperator(".");
    if (!after_dot && end < left_.size() && left_[end] == '.' && Digits(end + 1) > 0) {
      end += 1 + Digits(end + 1);
      is_float = true;
    }
    if (!after_dot && end < left_.size() && (left_[end] == 'e' || left_[end] == 'E')) {
      const bool sign = end + 1 < left_.size() && (left_[end + 1] == '-' || left_[end + 1] == '+');
      const size_t digits = Digits(end + 1 + (sign ? 1 : 0));
      if (digits > 0) {
        end += 1 + (sign ? 1 : 0) + digits;
        is_float = true;
      }
    }
    int base = 10;
    if (left_[0] == '0' && end == 1 && left_.size() > 2) {
      base = left_[1] == 'x' || left_[1] == 'X' ? 16
             : left_[1] == 'o'                  ? 8
             : left_[1] == 'b'                  ? 2
                                                : 10;
      if (base != 10) {
        end = 2;
        while (end < left_.size() && (HexValue(left_[end]) >= 0 || left_[end] == '_')) ++end;
      }
    }
    std::string digits(left_.substr(base == 10 ? 0 : 2, end - (base == 10 ? 0 : 2)));
    std::erase(digits, '_');
    Add(is_float ? TokenType::kFloat : TokenType::kInteger, left_.substr(0, end));
    if (!status_.ok()) return;
    Token& token = tokens_.back();
    const char* const last = digits.data() + digits.size();
    const auto read = is_float ? std::from_chars(digits.data(), last, token.real)
                               : std::from_chars(digits.data(), last, token.integer, base);
    if (read.ec != std::errc() || read.ptr != last) {
      return Fail(absl::StrCat("the number ", View(token.text.substr(0, 40)),
                               ", must be a float or an integer of 64 bits"));
    }
    Take(end);
  }

  void TextLiteral() {
    const char quote = left_[0];
    size_t end = 1;
    while (end < left_.size() && left_[end] != quote) end += left_[end] == '\\' ? 2 : 1;
    if (end >= left_.size()) return Fail("a text has no closing quote");
    const std::optional<std::string> text = Unescaped(left_.substr(1, end - 1));
    if (!text) return Fail("a text has an escape that is not known or stands for no character");
    Add(TokenType::kText, *text);
    Take(end + 1);
  }

  // Python's escapes.
  static std::optional<std::string> Unescaped(std::string_view text) {
    static constexpr std::string_view kFrom = "\\'\"abfnrtv";
    static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
    std::string out;
    while (!text.empty()) {
      if (text[0] != '\\') {
        out += text[0];
        text.remove_prefix(1);
        continue;
      }
      const char c = text[1];
      const size_t known = kFrom.find(c);
      if (c == '\n') {
        text.remove_prefix(2);
      } else if (known != std::string_view::npos) {
        out += kTo[known];
        text.remove_prefix(2);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        if (!AppendHex(&text, c == 'x' ? 2 : c == 'u' ? 4 : 8, &out)) return std::nullopt;
      } else if (c >= '0' && c <= '7') {
        char32_t value = 0;
        text.remove_prefix(1);
        for (int i = 0; i < 3 && !text.empty() && text[0] >= '0' && text[0] <= '7'; ++i) {
          value = value * 8 + static_cast<char32_t>(text[0] - '0');
          text.remove_prefix(1);
        }
        AppendUtf8(value, &out);
      } else if (c == 'N') {
        return std::nullopt;  // a character by its name
      } else {
        out += '\\';
        text.remove_prefix(1);
      }
    }
    return out;
  }

  static bool AppendHex(std::string_view* text, size_t digits, std::string* out) {
    if (text->size() < 2 + digits) return false;
    char32_t value = 0;
    for (const char c : text->substr(2, digits)) {
      if (HexValue(c) < 0) return false;
      value = value << 4 | static_cast<char32_t>(HexValue(c));
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return false;
    AppendUtf8(value, out);
    text->remove_prefix(2 + digits);
    return true;
  }

  const std::string& name_;
  std::string source_;
  std::string_view left_;
  int line_ = 1;
  bool at_line_begin_ = true;
  std::vector<Token> tokens_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source, const std::string& name) {
  return Lexer(source, name).Run();
}

std::string Shown(const Token& token) {
  switch (token.type) {
    case TokenType::kData:
      return "text";
    case TokenType::kVariableBegin:
      return "\"{{\"";
    case TokenType::kVariableEnd:
      return "\"}}\"";
    case TokenType::kBlockBegin:
      return "\"{%\"";
    case TokenType::kBlockEnd:
      return "\"%}\"";
    case TokenType::kText:
      return "a text";
    case TokenType::kEnd:
      return "the end of the template";
    default:
      return "\"" + token.text.substr(0, 60) + "\"";
  }
}

}  // namespace ng::jinja
