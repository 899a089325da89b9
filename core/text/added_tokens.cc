#include "core/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "core/text/unicode.h"

namespace ng {
namespace {

// Where the spaces before `end` begin, not before `floor`.
size_t BeginOfSpaces(std::string_view text, size_t floor, size_t end) {
  while (end > floor) {
    const CodePoint last = LastCodePoint(text.substr(0, end));
    if (!IsSpace(last.value)) break;
    end -= last.length;
  }
  return end;
}

size_t SpacesAfter(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const CodePoint first = FirstCodePoint(text.substr(end));
    if (!IsSpace(first.value)) break;
    end += first.length;
  }
  return end;
}

bool StandsAlone(std::string_view before, std::string_view after) {
  return (before.empty() || !IsWord(LastCodePoint(before).value)) &&
         (after.empty() || !IsWord(FirstCodePoint(after).value));
}

}  // namespace

bool FoundAlike(const AddedToken& a, const AddedToken& b) {
  return a.text == b.text && a.special == b.special && a.single_word == b.single_word &&
         a.lstrip == b.lstrip && a.rstrip == b.rstrip;
}

bool LooksLikeMarker(std::string_view text) {
  const auto begins = [&](std::string_view start) { return text.starts_with(start); };
  const auto ends = [&](std::string_view end) { return text.ends_with(end); };
  if (begins("<|") || begins("<\uFF5C") || ends("|>") || ends("\uFF5C>")) return true;
  if (begins("<start_of_") || begins("<end_of_") || begins("<unused")) return true;
  const bool bracketed = text.size() > 2 && begins("[") && ends("]");
  return bracketed && std::ranges::all_of(text.substr(1, text.size() - 2), [](char c) {
           return (c >= 'A' && c <= 'Z') || c == '_' || c == '/';
         });
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::sort(tokens_, {}, &AddedToken::text);
  for (const AddedToken& token : tokens_) begins_[static_cast<uint8_t>(token.text[0])] = true;
}

const AddedToken* AddedTokens::LongestAt(std::string_view text, std::string_view special_at) const {
  const auto is_allowed = [&](const AddedToken& token) {
    return !token.special ||
           special_at.substr(0, token.text.size()).find('\0') == std::string_view::npos;
  };
  const AddedToken* longest = nullptr;
  auto first = tokens_.begin();
  auto last = tokens_.end();
  // Narrows, byte by byte, the range of tokens that begin as the text does.
  for (size_t at = 0; first != last; ++at) {
    for (; first != last && first->text.size() == at; ++first) {
      if (is_allowed(*first)) longest = &*first;
    }
    if (at == text.size()) break;
    const auto byte = static_cast<uint8_t>(text[at]);
    const auto byte_of = [at](const AddedToken& token) {
      return static_cast<uint8_t>(token.text[at]);
    };
    first = std::ranges::lower_bound(first, last, byte, {}, byte_of);
    last = std::ranges::upper_bound(first, last, byte, {}, byte_of);
  }
  return longest;
}

std::vector<TextFragment> AddedTokens::Split(std::string_view text, bool parse_special,
                                             std::string_view special_at) const {
  std::vector<TextFragment> fragments;
  size_t done = 0;
  for (size_t at = 0; at < text.size() && !tokens_.empty();) {
    const AddedToken* const token =
        begins_[static_cast<uint8_t>(text[at])]
            ? LongestAt(text.substr(at), special_at.substr(std::min(at, special_at.size())))
            : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    const std::string_view before = text.substr(0, at);
    at += token->text.size();
    const std::string_view after = text.substr(at);
    if (token->special && !parse_special) continue;
    if (token->single_word && !StandsAlone(before, after)) continue;
    const size_t begin = token->lstrip ? BeginOfSpaces(text, done, before.size()) : before.size();
    if (done < begin) fragments.push_back({-1, text.substr(done, begin - done)});
    fragments.push_back({token->id, token->text});
    // The spaces that the last token took are not searched again for the next one.
    if (!token->rstrip) done = at;
    if (token->rstrip && at >= done) done = at + SpacesAfter(after);
  }
  if (done < text.size()) fragments.push_back({-1, text.substr(done)});
  return fragments;
}

}  // namespace ng
