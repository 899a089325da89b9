#include "ng/utf8.h"

#include <cstdint>

#include "absl/strings/str_format.h"

namespace ng {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

enum class Form { kValid, kInvalid, kIncomplete };

// The maximal subpart at the beginning of a text: a character, bytes that cannot become one, or the
// beginning of one that the text's end cuts off.
struct Subpart {
  Form form;
  size_t length;
};

// The bytes that may follow a lead byte: how many, and the range of the first one, which excludes
// overlong forms, surrogates and what lies above U+10FFFF (the Unicode standard, table 3-7).
struct Continuation {
  size_t count;
  uint8_t first_min = 0x80;
  uint8_t first_max = 0xBF;
};

// REQUIRES: lead >= 0x80.
std::optional<Continuation> ContinuationOf(uint8_t lead) {
  if (lead < 0xC2) return std::nullopt;
  if (lead < 0xE0) return Continuation{1};
  if (lead == 0xE0) return Continuation{2, 0xA0, 0xBF};
  if (lead == 0xED) return Continuation{2, 0x80, 0x9F};
  if (lead < 0xF0) return Continuation{2};
  if (lead == 0xF0) return Continuation{3, 0x90, 0xBF};
  if (lead < 0xF4) return Continuation{3};
  if (lead == 0xF4) return Continuation{3, 0x80, 0x8F};
  return std::nullopt;
}

// REQUIRES: !text.empty().
Subpart FirstSubpart(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {Form::kValid, 1};  // most text
  const std::optional<Continuation> rest = ContinuationOf(lead);
  if (!rest) return {Form::kInvalid, 1};
  for (size_t i = 1; i <= rest->count; ++i) {
    if (i == text.size()) return {Form::kIncomplete, i};
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t min = i == 1 ? rest->first_min : 0x80;
    const uint8_t max = i == 1 ? rest->first_max : 0xBF;
    if (byte < min || byte > max) return {Form::kInvalid, i};
  }
  return {Form::kValid, rest->count + 1};
}

bool IsContinuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0U) == 0x80U; }

}  // namespace

std::string_view Utf8Prefix(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  size_t end = limit;
  while (end > 0 && limit - end < 3 && IsContinuation(text[end])) --end;
  // More bytes in a row that go on with a character are none.
  return text.substr(0, IsContinuation(text[end]) ? limit : end);
}

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Subpart part = FirstSubpart(text.substr(at));
    if (part.form != Form::kValid) return at;
    at += part.length;
  }
  return std::nullopt;
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  Utf8Stream stream;
  std::string replaced = stream.Push(text);
  return replaced += stream.Finish();
}

void AppendUtf8(char32_t value, std::string* out) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (value >> shift & 0x3F)); };
  if (value < 0x80) {
    *out += static_cast<char>(value);
  } else if (value < 0x800) {
    *out += {static_cast<char>(0xC0 | value >> 6), tail(0)};
  } else if (value < 0x10000) {
    *out += {static_cast<char>(0xE0 | value >> 12), tail(6), tail(0)};
  } else {
    *out += {static_cast<char>(0xF0 | value >> 18), tail(12), tail(6), tail(0)};
  }
}

std::string Utf8Stream::Push(std::string_view bytes) {
  held_ += bytes;
  std::string complete;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Subpart part = FirstSubpart(rest);
    if (part.form == Form::kIncomplete) break;
    complete += part.form == Form::kValid ? rest.substr(0, part.length) : kReplacement;
    rest.remove_prefix(part.length);
  }
  held_.erase(0, held_.size() - rest.size());
  return complete;
}

std::string Utf8Stream::Finish() {
  const bool cut_off = !held_.empty();
  held_.clear();
  return std::string(cut_off ? kReplacement : "");
}

std::string VisibleText(std::string_view bytes) {
  std::string visible;
  while (!bytes.empty()) {
    const size_t n_valid = FindInvalidUtf8(bytes).value_or(bytes.size());
    for (const char c : bytes.substr(0, n_valid)) {
      if (c == ' ') {
        visible += "\xE2\x90\xA3";
      } else if (c == '\n') {
        visible += "\\n";
      } else if (c == '\t') {
        visible += "\\t";
      } else {
        visible += c;
      }
    }
    bytes.remove_prefix(n_valid);
    if (bytes.empty()) break;
    absl::StrAppendFormat(&visible, "<0x%02X>", static_cast<unsigned char>(bytes.front()));
    bytes.remove_prefix(1);
  }
  return visible;
}

}  // namespace ng
