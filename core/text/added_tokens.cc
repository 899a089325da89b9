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
  std::ranges::stable_sort(tokens_, [](const AddedToken& a, const AddedToken& b) {
    const auto less = [](char x, char y) {
      return static_cast<uint8_t>(x) < static_cast<uint8_t>(y);
    };
    return std::lexicographical_compare(a.text.rbegin(), a.text.rend(), b.text.rbegin(),
                                        b.text.rend(), less);
  });
  for (const AddedToken& token : tokens_) ends_[static_cast<uint8_t>(token.text.back())] = true;
  AddNodes();
  LinkNodes();
}

// Aho and Corasick's automaton, of the texts from right to left. So the state at a place of a text
// that is read from its end knows all tokens that begin there, and no place is read twice.
void AddedTokens::AddNodes() {
  struct Range {
    size_t begin;  // of tokens that end alike
    size_t end;
    size_t length;  // of what they end with
  };
  std::vector<Range> ranges = {{0, tokens_.size(), 0}};
  nodes_.emplace_back();
  beginnings_.assign(tokens_.size(), -1);
  for (size_t node = 0; node < ranges.size(); ++node) {
    const Range range = ranges[node];
    nodes_[node].children = static_cast<int32_t>(nodes_.size());
    size_t at = range.begin;
    for (; at < range.end && tokens_[at].text.size() == range.length; ++at) {
      beginnings_[at] = nodes_[node].token;  // of several with one text the last counts
      nodes_[node].token = static_cast<int32_t>(at);
      by_length_.push_back(nodes_[node].token);
    }
    while (at < range.end) {
      const auto byte_of = [&](size_t i) {
        const std::string& text = tokens_[i].text;
        return static_cast<uint8_t>(text[text.size() - 1 - range.length]);
      };
      const size_t begin = at;
      while (at < range.end && byte_of(at) == byte_of(begin)) ++at;
      ranges.push_back({begin, at, range.length + 1});
      nodes_.push_back({.byte = byte_of(begin)});
    }
  }
  nodes_.push_back({.children = static_cast<int32_t>(nodes_.size())});
}

void AddedTokens::LinkNodes() {
  const auto n_nodes = static_cast<int32_t>(nodes_.size()) - 1;
  for (int32_t node = 0; node < n_nodes; ++node) {
    for (int32_t child = nodes_[node].children; child < nodes_[node + 1].children; ++child) {
      Node& linked = nodes_[child];
      linked.rest = node == 0 ? 0 : Next(nodes_[node].rest, linked.byte);
      const int32_t shorter = nodes_[linked.rest].token;
      if (linked.token < 0) {
        linked.token = shorter;
        continue;
      }
      int32_t first = linked.token;
      while (beginnings_[first] >= 0) first = beginnings_[first];  // of those with one text
      beginnings_[first] = shorter;
    }
  }
}

int32_t AddedTokens::ChildOf(int32_t node, uint8_t byte) const {
  const auto first = nodes_.begin() + nodes_[node].children;
  const auto last = nodes_.begin() + nodes_[node + 1].children;
  const auto found = std::ranges::lower_bound(first, last, byte, {}, &Node::byte);
  return found == last || found->byte != byte ? -1 : static_cast<int32_t>(found - nodes_.begin());
}

int32_t AddedTokens::Next(int32_t node, uint8_t byte) const {
  for (;; node = nodes_[node].rest) {
    const int32_t child = ChildOf(node, byte);
    if (child >= 0) return child;
    if (node == 0) return 0;
  }
}

std::vector<WholeToken> AddedTokens::All() const {
  std::vector<WholeToken> all;
  for (const AddedToken& token : tokens_) all.push_back({token.id, token.text});
  return all;
}

std::vector<AddedTokens::Start> AddedTokens::Starts(std::string_view text) const {
  std::vector<Start> starts;
  int32_t node = 0;
  for (size_t at = text.size(); at-- > 0;) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (node == 0 && !ends_[byte]) continue;
    node = Next(node, byte);
    if (nodes_[node].token >= 0) starts.push_back({at, nodes_[node].token});
  }
  return starts;
}

// A guarded token lies within bytes that allow it, so it is looked for in each stretch of them by
// itself; the others are looked for in the whole text.
std::vector<AddedTokens::Start> AddedTokens::AllowedStarts(std::string_view text,
                                                           std::string_view special_at,
                                                           std::span<const int32_t> marks) const {
  // Of each token the longest one that it begins with and that nothing guards.
  std::vector<int32_t> free(tokens_.size());
  for (const int32_t token : by_length_) {
    const bool guarded =
        tokens_[token].special || std::ranges::binary_search(marks, tokens_[token].id);
    const int32_t shorter = beginnings_[token];
    free[token] = !guarded ? token : shorter < 0 ? -1 : free[shorter];
  }
  std::vector<Start> starts;
  int32_t anywhere = 0;
  int32_t within = 0;
  for (size_t at = text.size(); at-- > 0;) {
    const auto byte = static_cast<uint8_t>(text[at]);
    const bool allows = at >= special_at.size() || special_at[at] != '\0';
    if (!allows) within = 0;
    if (anywhere == 0 && within == 0 && !ends_[byte]) continue;
    anywhere = Next(anywhere, byte);
    if (allows) within = Next(within, byte);
    const int32_t any = nodes_[anywhere].token;
    const int32_t one = any < 0 ? -1 : free[any];
    const int32_t other = allows ? nodes_[within].token : -1;
    const bool takes_one =
        other < 0 || (one >= 0 && tokens_[one].text.size() > tokens_[other].text.size());
    const int32_t token = takes_one ? one : other;
    if (token >= 0) starts.push_back({at, token});
  }
  return starts;
}

std::vector<TextFragment> AddedTokens::Split(std::string_view text, bool parse_special,
                                             std::string_view special_at,
                                             std::span<const int32_t> marks) const {
  std::vector<Start> starts;
  if (!tokens_.empty()) {
    starts = special_at.empty() ? Starts(text) : AllowedStarts(text, special_at, marks);
  }
  std::vector<TextFragment> fragments;
  size_t done = 0;
  size_t at = 0;
  for (auto start = starts.rbegin(); start != starts.rend(); ++start) {
    if (start->at < at) continue;
    const AddedToken& token = tokens_[start->token];
    const std::string_view before = text.substr(0, start->at);
    at = start->at + token.text.size();
    const std::string_view after = text.substr(at);
    if (token.special && !parse_special) continue;
    if (token.single_word && !StandsAlone(before, after)) continue;
    const size_t begin = token.lstrip ? BeginOfSpaces(text, done, before.size()) : before.size();
    if (done < begin) fragments.push_back({-1, text.substr(done, begin - done)});
    fragments.push_back({token.id, token.text});
    // The spaces that the last token took are not searched again for the next one.
    if (!token.rstrip) done = at;
    if (token.rstrip && at >= done) done = at + SpacesAfter(after);
  }
  if (done < text.size()) fragments.push_back({-1, text.substr(done)});
  return fragments;
}

}  // namespace ng
