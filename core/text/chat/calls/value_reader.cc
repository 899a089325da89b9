#include "core/text/chat/calls/value_reader.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_format.h"
#include "ng/json.h"
#include "ng/utf8.h"

namespace ng::calls {
namespace {

constexpr size_t kMostDepth = 100;

bool IsWordSymbol(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '+' || c == '.' || c == '_';
}

// A word as JSON; empty: it is none.
std::string WordJson(std::string_view word, bool is_json) {
  if (word == "true" || word == "false" || word == "null") return std::string(word);
  if (!is_json) {
    if (word == "True") return "true";
    if (word == "False") return "false";
    if (word == "None") return "null";
  }
  const bool is_number = !word.empty() && (word[0] == '-' || (word[0] >= '0' && word[0] <= '9'));
  return is_number && CheckJson(std::string(word), "", 0).ok() ? std::string(word) : std::string();
}

// The value of `n` hexadecimal digits at the beginning.
std::optional<char32_t> HexValue(SymbolsView digits) {
  uint32_t value = 0;
  for (const char32_t c : digits) {
    if (c >= '0' && c <= '9') {
      value = value * 16 + (c - '0');
    } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
      value = value * 16 + ((c | 0x20) - 'a') + 10;
    } else {
      return std::nullopt;
    }
  }
  return value;
}

}  // namespace

void AppendEscaped(std::string_view bytes, std::string* json) {
  for (const char c : bytes) {
    switch (c) {
      case '"':
        *json += "\\\"";
        break;
      case '\\':
        *json += "\\\\";
        break;
      case '\n':
        *json += "\\n";
        break;
      case '\t':
        *json += "\\t";
        break;
      case '\r':
        *json += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < ' ') {
          *json += absl::StrFormat("\\u%04x", static_cast<unsigned>(c));
        } else {
          *json += c;
        }
    }
  }
}

size_t ValueReader::Read(SymbolsView in, bool last, std::string* json) {
  size_t done = 0;
  while (state_ == State::kGoing && done < in.size()) {
    const size_t n = Step(in.substr(done), last, json);
    if (n == 0) break;
    done += n;
  }
  return done;
}

size_t ValueReader::Step(SymbolsView in, bool last, std::string* json) {
  if (expected_ == Expected::kText) return StepText(in, last, json);
  const char32_t symbol = in.front();
  if (IsBlank(symbol)) {
    *json += static_cast<char>(symbol);
    return 1;
  }
  switch (expected_) {
    case Expected::kFirstKey:
    case Expected::kKey:
      return StepKey(in, last, json);
    case Expected::kColon:
      if (symbol != (AtTop() ? notation_->colon : U':')) return Break();
      *json += ':';
      expected_ = Expected::kValue;
      return 1;
    case Expected::kComma:
      return StepComma(symbol, json);
    case Expected::kFirstItem:
      if (symbol == ']') return Close(json);
      break;
    default:
      break;
  }
  return StepValue(in, last, json);
}

size_t ValueReader::StepValue(SymbolsView in, bool last, std::string* json) {
  const char32_t symbol = in.front();
  if (open_.empty() && arguments_) return symbol == notation_->open ? Open(true, json) : Break();
  key_ = false;
  if (symbol == '{' || symbol == '[') return Open(symbol == '{', json);
  const size_t quotes = OpenText(in, last, json);
  if (quotes > 0 || state_ == State::kBroken) return quotes;
  if (IsWordSymbol(symbol)) return StepWord(in, last, json);
  // It may be the beginning of the mark that begins a text.
  const bool may_be = !last && !notation_->quote.empty() && notation_->quote.starts_with(in);
  return may_be ? 0 : Break();
}

size_t ValueReader::StepKey(SymbolsView in, bool last, std::string* json) {
  const char32_t close = AtTop() ? notation_->close : U'}';
  const char32_t colon = AtTop() ? notation_->colon : U':';
  if (in.front() == close && expected_ == Expected::kFirstKey) return Close(json);
  key_ = true;
  if (const size_t quotes = OpenText(in, last, json); quotes > 0) return quotes;
  if (!notation_->bare_keys) return Break();
  const size_t end = in.find(colon);
  const SymbolsView key = TrimRight(in.substr(0, end));
  if (key.empty() || std::ranges::any_of(key, [](char32_t c) {
        return IsToken(c) || IsBlank(c) || c == ',' || c == '{' || c == '}' || c == '(' || c == ')';
      })) {
    return Break();
  }
  if (end == in.npos) return last ? Break() : 0;
  *json += '"';
  AppendEscaped(TextOf(key, *tokens_), json);
  *json += '"';
  expected_ = Expected::kColon;
  return end;
}

size_t ValueReader::StepComma(char32_t symbol, std::string* json) {
  const bool object = open_.back();
  const char32_t close = !object ? U']' : AtTop() ? notation_->close : U'}';
  if (symbol == close) return Close(json);
  if (symbol != ',') return Break();
  *json += ',';
  expected_ = object ? Expected::kKey : Expected::kValue;
  return 1;
}

size_t ValueReader::OpenText(SymbolsView in, bool /*last*/, std::string* json) {
  const char32_t symbol = in.front();
  size_t n = 1;
  if (symbol == '"' || (symbol == '\'' && notation_->python)) {
    quote_ = symbol;
  } else if (!notation_->quote.empty() && in.starts_with(notation_->quote)) {
    quote_ = notation_->quote;
    n = quote_.size();
  } else {
    return 0;
  }
  *json += '"';
  expected_ = Expected::kText;
  return n;
}

size_t ValueReader::StepText(SymbolsView in, bool last, std::string* json) {
  if (in.starts_with(quote_)) {
    *json += '"';
    if (key_) {
      expected_ = Expected::kColon;
    } else {
      EndValue();
    }
    return quote_.size();
  }
  if (!last && in.size() < quote_.size() && quote_.starts_with(in)) return 0;
  const bool escapes = quote_ != notation_->quote;
  if (escapes && in.front() == '\\') return StepEscape(in, last, json);
  AppendEscaped(TextOf(in.substr(0, 1), *tokens_), json);
  return 1;
}

size_t ValueReader::StepEscape(SymbolsView in, bool last, std::string* json) {
  if (in.size() < 2) {
    if (last) *json += "\\\\";
    return last ? 1 : 0;
  }
  const char32_t c = in[1];
  const size_t n_digits = c == 'u' ? 4 : c == 'x' ? 2 : c == 'U' ? 8 : 0;
  if (!last && in.size() < 2 + n_digits) return 0;
  const std::optional<char32_t> value = HexValue(in.substr(2, n_digits));
  const bool is_hex = n_digits > 0 && in.size() >= 2 + n_digits && value;
  if (is_hex && c == 'u') {
    *json += TextOf(in.substr(0, 6), *tokens_);
    return 6;
  }
  if (is_hex && notation_->python && *value <= 0x10FFFF) {
    std::string character;
    AppendUtf8(*value, &character);
    AppendEscaped(character, json);
    return 2 + n_digits;
  }
  if (c == '"' || c == '\\' || c == '/' || c == 'b' || c == 'f' || c == 'n' || c == 'r' ||
      c == 't') {
    *json += '\\';
    *json += static_cast<char>(c);
    return 2;
  }
  if (c == '\'') {
    *json += '\'';
    return 2;
  }
  *json += "\\\\";  // no escape: the backslash stands for itself
  return 1;
}

size_t ValueReader::StepWord(SymbolsView in, bool last, std::string* json) {
  const auto end = std::ranges::find_if_not(in, IsWordSymbol) - in.begin();
  const auto n = static_cast<size_t>(end);
  if (n == in.size() && !last) return 0;
  const std::string word = WordJson(TextOf(in.substr(0, n), *tokens_), notation_->is_json());
  if (word.empty()) return Break();
  *json += word;
  EndValue();
  return n;
}

size_t ValueReader::Open(bool object, std::string* json) {
  if (open_.size() == kMostDepth) return Break();
  open_.push_back(object);
  *json += object ? '{' : '[';
  expected_ = object ? Expected::kFirstKey : Expected::kFirstItem;
  return 1;
}

size_t ValueReader::Close(std::string* json) {
  *json += open_.back() ? '}' : ']';
  open_.pop_back();
  EndValue();
  return 1;
}

void ValueReader::EndValue() {
  expected_ = Expected::kComma;
  if (open_.empty()) state_ = State::kDone;
}

std::optional<std::string> ReadValue(std::string_view text, const Notation& notation) {
  static const TokenTexts kNone;
  const Symbols symbols = SymbolsOf(text);
  ValueReader reader(notation, kNone);
  std::string json;
  const size_t n = reader.Read(symbols, /*last=*/true, &json);
  const bool whole = reader.state() == ValueReader::State::kDone &&
                     TrimLeft(SymbolsView(symbols).substr(n)).empty();
  if (!whole || !CheckJson(json, "", static_cast<int>(kMostDepth)).ok()) return std::nullopt;
  return json;
}

}  // namespace ng::calls
