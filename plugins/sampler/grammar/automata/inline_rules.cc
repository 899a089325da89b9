#include "plugins/sampler/grammar/automata/inline_rules.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ng::grammar {
namespace {

constexpr size_t kMaxSize = 512;  // edges of a rule that is put in place of its calls

class Inliner {
 public:
  explicit Inliner(const Net& net)
      : net_(net), copied_(net.budget()), out_(static_cast<size_t>(net.n_states())) {
    for (size_t e = 0; e < net.edges().size(); ++e) {
      out_[static_cast<size_t>(net.edges()[e].from)].push_back(e);
    }
    rules_.resize(net.rules().size());
  }

  // The number of the root in the net that it makes.
  int32_t Run(int32_t root) {
    Look(root);
    Rule(root).keep = true;
    for (size_t r = 0; r < rules_.size(); ++r) {
      if (rules_[r].looked == kLooked && Keeps(static_cast<int32_t>(r))) {
        const ng::grammar::Rule& rule = net_.rules()[r];
        rules_[r].number =
            rule.counts ? copied_.NewRule(rule.name, rule.count) : copied_.NewRule(rule.name);
      }
    }
    for (size_t r = 0; r < rules_.size() && copied_.status().ok(); ++r) {
      if (rules_[r].number >= 0) copied_.SetRule(rules_[r].number, Copy(static_cast<int32_t>(r)));
    }
    return Rule(root).number;
  }
  Net& copied() { return copied_; }

 private:
  enum Looked : uint8_t { kNew, kLooking, kLooked };
  struct RuleFacts {
    Looked looked = kNew;
    bool keep = false;
    size_t size = 0;      // edges, with those of what is put into it
    int32_t number = -1;  // in the copy, of one that is kept
  };
  RuleFacts& Rule(int32_t rule) { return rules_[static_cast<size_t>(rule)]; }
  bool Keeps(int32_t rule) {
    return Rule(rule).keep || Rule(rule).size > kMaxSize ||
           net_.rules()[static_cast<size_t>(rule)].counts;
  }

  // The states between a rule's entry and exit, and those that lead nowhere.
  std::vector<int32_t> States(int32_t rule) const {
    const Part part = net_.rules()[static_cast<size_t>(rule)].part;
    std::vector<int32_t> states = {part.in};
    if (part.out != part.in) states.push_back(part.out);
    std::vector<uint8_t>& seen = seen_;
    seen.resize(out_.size());
    for (const int32_t state : states) seen[static_cast<size_t>(state)] = 1;
    for (size_t i = 0; i < states.size(); ++i) {
      for (const size_t e : out_[static_cast<size_t>(states[i])]) {
        const int32_t to = net_.edges()[e].to;
        if (std::exchange(seen[static_cast<size_t>(to)], uint8_t{1}) == 0) states.push_back(to);
      }
    }
    for (const int32_t state : states) seen[static_cast<size_t>(state)] = 0;
    return states;
  }

  // A rule that comes upon itself is kept: each circle has such a one.
  void Look(int32_t rule) {
    Rule(rule).looked = kLooking;
    size_t size = 0;
    for (const int32_t state : States(rule)) {
      for (const size_t e : out_[static_cast<size_t>(state)]) {
        ++size;
        const Edge& edge = net_.edges()[e];
        if (!edge.calls()) continue;
        if (edge.kind == EdgeKind::kRead) Rule(edge.rule).keep = true;
        if (Rule(edge.rule).looked == kNew) Look(edge.rule);
        if (Rule(edge.rule).looked == kLooking) Rule(edge.rule).keep = true;
        if (!Keeps(edge.rule)) size += Rule(edge.rule).size;
      }
    }
    Rule(rule).size = size;
    Rule(rule).looked = kLooked;
  }

  Part Copy(int32_t rule) {
    const Part part = net_.rules()[static_cast<size_t>(rule)].part;
    const std::vector<int32_t> states = States(rule);
    const int32_t base = copied_.NewStates(static_cast<int64_t>(states.size()));
    std::vector<std::pair<int32_t, int32_t>> numbers;  // old, new
    for (size_t i = 0; i < states.size(); ++i) {
      numbers.emplace_back(states[i], base + static_cast<int32_t>(i));
    }
    std::ranges::sort(numbers);
    const auto number = [&](int32_t state) {
      return std::ranges::lower_bound(numbers, state, {}, &std::pair<int32_t, int32_t>::first)
          ->second;
    };
    for (const int32_t state : states) {
      if (!copied_.status().ok()) break;
      for (const size_t e : out_[static_cast<size_t>(state)]) {
        Edge edge = net_.edges()[e];
        edge.from = number(edge.from);
        edge.to = number(edge.to);
        if (!edge.calls() || Keeps(edge.rule)) {
          if (edge.calls()) edge.rule = Rule(edge.rule).number;
          copied_.Add(edge);
        } else {
          const Part inside = Copy(edge.rule);
          copied_.Free(edge.from, inside.in);
          copied_.Free(inside.out, edge.to);
        }
      }
    }
    return {number(part.in), number(part.out)};
  }

  const Net& net_;
  Net copied_;
  std::vector<std::vector<size_t>> out_;  // [n_states] edges
  std::vector<RuleFacts> rules_;
  mutable std::vector<uint8_t> seen_;  // [n_states], all 0 between calls
};

}  // namespace

int32_t InlineRules(Net& net, int32_t root) {
  if (!net.status().ok()) return root;
  Inliner inliner(net);
  const int32_t copied_root = inliner.Run(root);
  if (!inliner.copied().status().ok()) return root;
  net = std::move(inliner.copied());
  return copied_root;
}

}  // namespace ng::grammar
