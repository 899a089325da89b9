// Sets of texts (as bytes of UTF-8) that can be cut, joined and turned into their opposite: what a
// schema says of a string or of a property's name.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_DFA_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_DFA_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/sampler/grammar/automata/net.h"

namespace ng::grammar {

// A deterministic automaton over bytes; it begins in state 0.
struct Dfa {
  static constexpr int32_t kNone = -1;
  static constexpr size_t kMaxStates = 8000;

  std::vector<std::array<int32_t, 256>> next;
  std::vector<uint8_t> accepts;

  int32_t NewState();
  bool Matches(std::string_view text) const;
  // Whether it matches nothing.
  bool Empty() const;
};

// Of a part without calls and anchors. Errors: UsageError when it takes too many states, here and
// below.
absl::StatusOr<Dfa> Determinize(const Net& net, Part part);
enum class Both : uint8_t { kAnd, kAndNot, kOr };
absl::StatusOr<Dfa> Combine(const Dfa& a, const Dfa& b, Both how, Budget& budget);

// What is in all of them. Two by two, since what two have in common is about as large as both.
// REQUIRES: there is one.
absl::StatusOr<Dfa> InAll(std::vector<Dfa> all, Budget& budget);

// Every text; every text of these; texts in which a pattern is found (or which it matches whole).
const Dfa& AnyText();
absl::StatusOr<Dfa> TheTexts(std::span<const std::string> texts);
absl::StatusOr<Dfa> Found(std::string_view pattern, Budget& budget);
absl::StatusOr<Dfa> Matching(std::string_view pattern, Budget& budget);
// Texts of so many code points.
absl::StatusOr<Dfa> OfLength(Count count, Budget& budget);

// Adds a Dfa to a net as it is.
Part AddDfa(const Dfa& dfa, Net& net);
// The texts of which each has one of these numbers of code points. Where the Dfa has no text of a
// length, and lengths around it, that is not seen: an answer may then come to no end.
Part AddCounted(const Dfa& dfa, Count count, Net& net);
// Adds a part of another net as a JSON string without its quotes, or as one in other quotes. Each
// text has one spelling: escapes are only where there must be one, and the shortest.
Part AddAsString(const Net& texts, Part part, char quote, Net& net);
inline Part AddAsJsonString(const Net& texts, Part part, Net& net) {
  return AddAsString(texts, part, '"', net);
}

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_DFA_H_
