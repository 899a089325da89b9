// Where a long text can be cut so that its parts have the same ids as the whole text: before a
// space that follows another character, if no token contains such a place. Merging takes many times
// the memory of the text that is merged; for a short part this does not matter.
#ifndef NG_CORE_TEXT_TEXT_PARTS_H_
#define NG_CORE_TEXT_TEXT_PARTS_H_

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace ng {

// How SentencePiece's tokens show a space.
inline constexpr char kShownSpace[] = "\u2581";
inline constexpr size_t kPartBytes = size_t{1} << 16;

// Whether a token has a space, shown or not, after another character.
bool SpansASpace(std::string_view token);

// Where a part of about kPartBytes ends: before a `space`. The end of the text if it has no such
// place.
size_t EndOfPart(std::string_view text, std::string_view space);

// Puts together what two windows of a text, which overlap, were merged to by themselves. If they
// have a token in common, the tokens of the first up to it and those of the second from it on are
// the tokens of both together: these take the place of `merged`. False: they have none.
//
// Why: tokens t1 ... tn are what their text merges to if each two neighbours are what their own
// text merges to. For otherwise there is a first merge across one of the borders. Until then, what
// happened between the outer borders of that pair of tokens is what happens if the pair is merged
// by itself, in the same order; so it would be merged across the border then, too. And each two
// neighbours in the result of a merge are what their own text merges to, by the same reasoning.
//
// A Token has a `begin`, which rises, and equal tokens are the same at the same place.
template <class Token>
bool JoinAtCommonToken(const std::vector<Token>& more, std::vector<Token>* merged) {
  if (more.empty()) return false;
  auto old = std::ranges::lower_bound(*merged, more.front().begin, {}, &Token::begin);
  auto token = more.begin();
  while (old != merged->end() && token != more.end() && *old != *token) {
    if (old->begin <= token->begin) {
      ++old;
    } else {
      ++token;
    }
  }
  if (old == merged->end() || token == more.end()) return false;
  merged->erase(old, merged->end());
  merged->insert(merged->end(), token, more.end());
  return true;
}

// The end of the character to which the byte before `at` belongs. REQUIRES: valid UTF-8.
size_t EndOfCharacter(std::string_view text, size_t at);

}  // namespace ng

#endif  // NG_CORE_TEXT_TEXT_PARTS_H_
