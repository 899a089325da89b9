// Between a Net and a Program: the rules of a grammar without what never comes to an end, and what
// must be known of them all.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_FLAT_RULES_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_FLAT_RULES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "plugins/sampler/grammar/automata/net.h"

namespace ng::grammar {

struct FlatRules {
  int32_t n_states = 0;
  std::vector<Edge> edges;
  std::vector<Rule> rules;     // an entry of -1: nothing calls it
  std::vector<Count> windows;  // of edges kCount
  std::vector<int32_t> ranks;  // [n_rules] A rule that begins with another one has the smaller one
  // [n_states] 0, or how a rule is left there: 1, or 2 where it counts.
  std::vector<uint8_t> exits;
  bool may_be_empty = false;  // the root
};

// Lists of items by a key, as one array.
class Lists {
 public:
  // A key below 0: the item is in no list.
  template <class KeyOf>
  Lists(size_t n_keys, size_t n_items, const KeyOf& key_of) : begin_(n_keys + 1) {
    for (size_t i = 0; i < n_items; ++i) {
      if (const int32_t key = key_of(i); key >= 0) ++begin_[static_cast<size_t>(key) + 1];
    }
    for (size_t k = 0; k < n_keys; ++k) begin_[k + 1] += begin_[k];
    items_.resize(begin_.back());
    std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
    for (size_t i = 0; i < n_items; ++i) {
      if (const int32_t key = key_of(i); key >= 0) items_[next[static_cast<size_t>(key)]++] = i;
    }
  }
  std::span<const size_t> operator[](int32_t key) const {
    const auto k = static_cast<size_t>(key);
    return std::span(items_).subspan(begin_[k], begin_[k + 1] - begin_[k]);
  }

 private:
  std::vector<size_t> begin_;
  std::vector<size_t> items_;
};

// [n_states] Whether a rule may come from there to its end and read nothing.
std::vector<uint8_t> MayEnd(const Net& net);

// Errors: UsageError when a rule matches no text at all.
absl::Status CheckWritable(const Net& net, int32_t rule);

// A call of a rule that may read nothing can be passed by: there is an edge kFree beside it. So a
// rule that is called may be taken to read something.
// Errors: UsageError when the net is too large, matches no text at all, or has a rule that begins
// with itself.
absl::StatusOr<FlatRules> Flatten(const Net& net, int32_t root);

// The same with one state and no edge kFree for each beginning that texts of a rule have in common,
// where that does not make the rule much larger. Only what the root needs is left.
FlatRules Determinized(const FlatRules& flat, int32_t root);

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_AUTOMATA_FLAT_RULES_H_
