#include "core/text/pipeline/normalizer.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ng/utf8.h"

namespace ng {
namespace {

absl::Status TooLong() { return UsageError("makes too much of the text"); }

// Writes a text anew from left to right, and its mask with it.
class Rewriter {
 public:
  Rewriter(const MaskedText& from, StepBudget& budget) : from_(from), budget_(budget) {
    to_.text.reserve(from.text.size());
  }

  // Nothing once more has been written than may be.
  std::string_view rest() const {
    return is_full_ ? std::string_view() : std::string_view(from_.text).substr(at_);
  }
  bool is_full() const { return is_full_; }
  size_t at() const { return at_; }
  void Keep(size_t n) {
    to_.text.append(from_.text, at_, n);
    if (!from_.mask.empty()) to_.mask.append(from_.mask, at_, n);
    at_ += n;
  }
  // Writes these bytes in place of the next n.
  void Put(size_t n, std::string_view bytes) {
    is_full_ = is_full_ || !budget_.Grow(n, bytes.size());
    if (is_full_) return;
    to_.text += bytes;
    if (!from_.mask.empty()) {
      const bool allowed =
          std::string_view(from_.mask).substr(at_, n).find('\0') == std::string_view::npos;
      to_.mask.append(bytes.size(), static_cast<char>(allowed));
    }
    at_ += n;
  }
  absl::StatusOr<MaskedText> Finish() {
    if (is_full_) return TooLong();
    return std::move(to_);
  }

 private:
  const MaskedText& from_;
  StepBudget& budget_;
  bool is_full_ = false;
  MaskedText to_;
  size_t at_ = 0;
};

// No character joins with an ASCII character that follows it, so the mask is followed in stretches
// that begin with one.
absl::StatusOr<MaskedText> Apply(NormalForm form, MaskedText text, StepBudget& budget) {
  if (text.mask.empty()) {
    const size_t size = text.text.size();
    text.text = Normalize(text.text, form);
    if (!budget.Grow(size, text.text.size())) return TooLong();
    return text;
  }
  Rewriter out(text, budget);
  while (!out.rest().empty()) {
    const std::string_view rest = out.rest();
    size_t end = 1;
    while (end < rest.size() && (static_cast<uint8_t>(rest[end]) & 0x80) != 0) ++end;
    const std::string normal = Normalize(rest.substr(0, end), form);
    if (normal == rest.substr(0, end)) {
      out.Keep(end);
    } else {
      out.Put(end, normal);
    }
  }
  return out.Finish();
}

absl::StatusOr<MaskedText> Apply(const ReplaceStep& step, MaskedText text, StepBudget& budget) {
  Rewriter out(text, budget);
  NG_RETURN_IF_ERROR(ForEachMatch(step.from, text.text, budget, [&](Regex::Match match) {
    out.Keep(match.begin - out.at());
    out.Put(match.end - match.begin, step.to);
    return !out.is_full();
  }));
  out.Keep(out.rest().size());
  return out.Finish();
}

absl::StatusOr<MaskedText> Apply(const PrependStep& step, MaskedText text, StepBudget& budget) {
  if (text.text.empty()) return text;
  if (!budget.Grow(0, step.text.size())) return TooLong();
  MaskedText prefixed;
  prefixed.text.append(step.text).append(text.text);
  if (!text.mask.empty()) prefixed.mask.append(step.text.size(), '\1').append(text.mask);
  return prefixed;
}

absl::StatusOr<MaskedText> Apply(const StripStep& step, MaskedText text, StepBudget& /*budget*/) {
  size_t begin = 0;
  size_t end = text.text.size();
  const std::string_view all = text.text;
  while (step.left && begin < end && IsSpace(FirstCodePoint(all.substr(begin)).value)) {
    begin += FirstCodePoint(all.substr(begin)).length;
  }
  while (step.right && begin < end && IsSpace(LastCodePoint(all.substr(0, end)).value)) {
    end -= LastCodePoint(all.substr(0, end)).length;
  }
  if (!text.mask.empty()) text.mask = text.mask.substr(begin, end - begin);
  text.text = text.text.substr(begin, end - begin);
  return text;
}

absl::StatusOr<MaskedText> Apply(CharMapStep map, MaskedText text, StepBudget& budget) {
  Rewriter out(text, budget);
  std::string mapped;
  while (!out.rest().empty()) {
    const CodePoint next = FirstCodePoint(out.rest());
    mapped.clear();
    map(next.value, &mapped);
    out.Put(next.length, mapped);
  }
  return out.Finish();
}

// A grapheme that the map knows the beginning of is replaced as a whole; it is looked up only if it
// is short. So is each character of the others.
absl::StatusOr<MaskedText> Apply(const CharsMapStep& map, MaskedText text, StepBudget& budget) {
  constexpr size_t kShort = 6;
  Rewriter out(text, budget);
  ForEachGrapheme(text.text, [&](std::string_view grapheme) {
    const auto whole = grapheme.size() < kShort ? map->Find(grapheme) : std::nullopt;
    if (whole) return out.Put(grapheme.size(), *whole);
    while (!grapheme.empty()) {
      const size_t length = FirstCodePoint(grapheme).length;
      const auto found = map->Find(grapheme.substr(0, length));
      if (found) {
        out.Put(length, *found);
      } else {
        out.Keep(length);
      }
      grapheme.remove_prefix(length);
    }
  });
  return out.Finish();
}

// Which tables of Unicode the tokenizers library has for BERT's steps.
constexpr int kVersionOfBert = 8;

bool IsIdeograph(char32_t value) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  for (const auto& [first, last] : kRanges) {
    if (value >= first && value <= last) return true;
  }
  return false;
}

}  // namespace

void LowerChar(char32_t value, std::string* out) { AppendLower(value, out); }

void DropMark(char32_t value, std::string* out) {
  if (!IsMarkOf9(value)) AppendUtf8(value, out);
}

void DropSpacelessMark(char32_t value, std::string* out) {
  if (!IsSpacelessMarkOf8(value)) AppendUtf8(value, out);
}

void CleanAsNmt(char32_t value, std::string* out) {
  const bool control = (value >= 0x01 && value <= 0x08) || value == 0x0B ||
                       (value >= 0x0E && value <= 0x1F) || value == 0x7F || value == 0x8F ||
                       value == 0x9F;
  if (control) return;
  constexpr std::u32string_view kSpaces =
      U"\t\n\f\r\u1680\u200B\u200C\u200D\u200E\u200F\u2028\u2029\u2581\uFEFF\uFFFD";
  AppendUtf8(kSpaces.find(value) == kSpaces.npos ? value : U' ', out);
}

void CleanAsBert(char32_t value, std::string* out) {
  const bool line_space = value == '\t' || value == '\n' || value == '\r';
  const bool control = IsControl(value) && UnicodeVersionOf(value) <= kVersionOfBert;
  if (!line_space && (value == 0xFFFD || control)) return;
  AppendUtf8(IsSpace(value) ? U' ' : value, out);
}

void SpaceAroundIdeograph(char32_t value, std::string* out) {
  const char* const space = IsIdeograph(value) ? " " : "";
  *out += space;
  AppendUtf8(value, out);
  *out += space;
}

absl::StatusOr<MaskedText> ApplySteps(const std::vector<NormalizerStep>& steps, MaskedText text,
                                      StepBudget& budget) {
  for (size_t i = 0; i < steps.size(); ++i) {
    absl::StatusOr<MaskedText> done = std::visit(
        [&](const auto& kind) { return Apply(kind, std::move(text), budget); }, steps[i]);
    if (!done.ok()) {
      return Annotate(done.status(),
                      absl::StrCat("step ", i + 1, " of the tokenizer's normalizer: "));
    }
    text = *std::move(done);
  }
  return text;
}

}  // namespace ng
