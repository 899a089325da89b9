#include "core/text/chat/template_marks.h"

#include <algorithm>
#include <utility>

#include "core/text/unicode.h"

namespace ng {
namespace {

bool AllAre(std::string_view text, bool (*is)(char32_t)) {
  while (!text.empty()) {
    const CodePoint first = FirstCodePoint(text);
    if (!is(first.value)) return false;
    text.remove_prefix(first.length);
  }
  return true;
}

// A single character and spaces are how any text is written.
bool MayBeMark(std::string_view token) {
  return token.size() > FirstCodePoint(token).length && !AllAre(token, IsSpace);
}

void Add(const std::vector<TextFragment>& fragments, std::vector<int32_t>* marks) {
  for (const TextFragment& fragment : fragments) {
    if (fragment.id >= 0) marks->push_back(fragment.id);
  }
  std::ranges::sort(*marks);
  marks->erase(std::unique(marks->begin(), marks->end()), marks->end());
}

}  // namespace

TemplateMarks::TemplateMarks(const Tokenizer& tokenizer)
    : whole_(tokenizer.WholeTokens()), special_(tokenizer.SpecialIds()) {
  std::ranges::sort(special_);
  std::vector<AddedToken> candidates;
  for (const WholeToken& token : whole_) {
    if (!MayBeMark(token.text)) continue;
    candidates.push_back({.id = token.id, .text = token.text, .special = true});
  }
  candidates_ = AddedTokens(std::move(candidates));
}

void TemplateMarks::AddOfProgram(std::string_view program) {
  std::vector<TextFragment> found = candidates_.Split(program, true);
  // Words are mostly names in it.
  std::erase_if(found, [](const TextFragment& part) { return AllAre(part.text, IsWord); });
  Add(found, &marks_);
}

void TemplateMarks::AddOfText(const jinja::Text& text) {
  Add(candidates_.Split(text.bytes(), true, text.origins()), &marks_);
}

std::vector<int32_t> TemplateMarks::With(const jinja::Text& text) const {
  std::vector<int32_t> marks = marks_;
  Add(candidates_.Split(text.bytes(), true, text.origins()), &marks);
  return marks;
}

std::vector<TextFragment> TemplateMarks::PartsOf(const jinja::Text& text) const {
  return candidates_.Split(text.bytes(), true, text.origins());
}

std::string_view TemplateMarks::TextOf(int32_t id) const {
  const auto found = std::ranges::find(whole_, id, &WholeToken::id);
  return found == whole_.end() ? std::string_view() : std::string_view(found->text);
}

bool TemplateMarks::Has(int32_t id) const {
  return std::ranges::binary_search(special_, id) || std::ranges::binary_search(marks_, id);
}

std::optional<int32_t> TemplateMarks::Find(std::string_view literal) const {
  const auto found = std::ranges::find(whole_, literal, &WholeToken::text);
  return found == whole_.end() ? std::nullopt : std::optional(found->id);
}

}  // namespace ng
