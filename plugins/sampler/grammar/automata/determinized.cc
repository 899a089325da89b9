// Rules in which no two ways begin alike: states of the new rules are sets of states of the old.
#include <algorithm>
#include <array>
#include <bitset>
#include <map>
#include <utility>

#include "plugins/sampler/grammar/automata/flat_rules.h"
#include "plugins/sampler/grammar/automata/number_table.h"

namespace ng::grammar {
namespace {

class RuleMaker {
 public:
  explicit RuleMaker(const FlatRules& flat)
      : flat_(flat),
        out_(static_cast<size_t>(flat.n_states), flat.edges.size(),
             [&](size_t e) { return flat.edges[e].from; }),
        seen_(static_cast<size_t>(flat.n_states)) {}

  FlatRules Make(int32_t root) {
    made_.rules = flat_.rules;
    made_.windows = flat_.windows;
    made_.ranks = flat_.ranks;
    made_.may_be_empty = flat_.may_be_empty;
    for (Rule& rule : made_.rules) rule.part = {-1, -1};
    Need(root);
    for (size_t i = 0; i < needed_.size(); ++i) {
      const auto state = static_cast<size_t>(made_.n_states);
      const size_t edge = made_.edges.size();
      if (Sets(needed_[i])) continue;
      made_.n_states = static_cast<int32_t>(state);
      made_.edges.resize(edge);
      made_.exits.resize(state);
      Copy(needed_[i]);
    }
    return std::move(made_);
  }

 private:
  void Need(int32_t rule) {
    if (std::exchange(needs_[rule], true)) return;
    needed_.push_back(rule);
  }
  Part PartOf(int32_t rule) const { return flat_.rules[static_cast<size_t>(rule)].part; }
  uint8_t ExitOf(int32_t state) const { return flat_.exits[static_cast<size_t>(state)]; }
  void SetEntry(int32_t rule, int32_t entry) {
    made_.rules[static_cast<size_t>(rule)].part = {entry, entry};
  }
  int32_t NewState(uint8_t exit) {
    made_.exits.push_back(exit);
    return made_.n_states++;
  }
  std::vector<int32_t> States(int32_t rule, bool only_free, std::vector<int32_t> states) {
    if (rule >= 0) states = {PartOf(rule).in};
    std::erase_if(states, [&](int32_t state) {
      return std::exchange(seen_[static_cast<size_t>(state)], uint8_t{1}) != 0;
    });
    for (size_t i = 0; i < states.size(); ++i) {
      for (const size_t e : out_[states[i]]) {
        ++work_;
        const Edge& edge = flat_.edges[e];
        if (only_free && edge.kind != EdgeKind::kFree) continue;
        if (std::exchange(seen_[static_cast<size_t>(edge.to)], uint8_t{1}) != 0) continue;
        states.push_back(edge.to);
      }
    }
    for (const int32_t state : states) seen_[static_cast<size_t>(state)] = 0;
    work_ += states.size();
    std::ranges::sort(states);
    return states;
  }

  // The rule as it is.
  void Copy(int32_t rule) {
    const std::vector<int32_t> states = States(rule, false, {});
    const int32_t base = made_.n_states;
    const auto number = [&](int32_t state) {
      return base + static_cast<int32_t>(std::ranges::lower_bound(states, state) - states.begin());
    };
    for (const int32_t state : states) NewState(ExitOf(state));
    for (const int32_t state : states) {
      for (const size_t e : out_[state]) {
        Edge edge = flat_.edges[e];
        edge.from = number(edge.from);
        edge.to = number(edge.to);
        made_.edges.push_back(edge);
        if (edge.calls()) Need(edge.rule);
      }
    }
    SetEntry(rule, number(PartOf(rule).in));
  }

  // The rule by sets of states; false where they are too many.
  bool Sets(int32_t rule) {
    size_t size = 0;
    for (const int32_t state : States(rule, false, {})) size += 1 + out_[state].size();
    const size_t max_sets = 2 * size + 64;
    const size_t max_work = 16 * size + 10000;
    sets_ = {};
    base_ = made_.n_states;
    work_ = 0;
    SetEntry(rule, Number({PartOf(rule).in}));
    for (size_t set = 0; set < sets_.size(); ++set) {
      if (sets_.size() > max_sets || work_ > max_work) return false;
      AddEdges(set);
    }
    return true;
  }
  int32_t Number(std::vector<int32_t> states) {
    const auto [number, is_new] = sets_.Number(States(-1, true, std::move(states)));
    if (is_new) {
      uint8_t exit = 0;
      for (const int32_t state : sets_[static_cast<size_t>(number)]) {
        exit = std::max(exit, ExitOf(state));
      }
      NewState(exit);
    }
    return base_ + number;
  }
  void AddEdges(size_t set) {
    const int32_t from = base_ + static_cast<int32_t>(set);
    std::vector<const Edge*> bytes;
    std::map<std::pair<EdgeKind, int32_t>, std::vector<int32_t>>
        others;  // by kind and rule or window
    for (const int32_t state : sets_[set]) {
      for (const size_t e : out_[state]) {
        const Edge& edge = flat_.edges[e];
        if (edge.kind == EdgeKind::kFree) continue;
        if (edge.kind == EdgeKind::kByte) {
          bytes.push_back(&edge);
        } else {
          others[{edge.kind, edge.rule}].push_back(edge.to);
        }
      }
    }
    AddBytes(from, bytes);
    for (auto& [what, to] : others) {
      const int32_t next = Number(std::move(to));
      const Edge& made = made_.edges.emplace_back(Edge{from, next, what.first, 0, 0, what.second});
      if (made.calls()) Need(made.rule);
    }
  }
  void AddBytes(int32_t from, const std::vector<const Edge*>& edges) {
    if (edges.empty()) return;
    if (edges.size() == 1) {
      Edge edge = *edges.front();
      edge.from = from;
      edge.to = Number({edge.to});
      made_.edges.push_back(edge);
      return;
    }
    std::bitset<257> begins;
    for (const Edge* edge : edges) {
      begins.set(edge->low);
      begins.set(edge->high + size_t{1});
    }
    std::array<uint16_t, 256> range_of = {};  // of each byte
    std::vector<int> lows;
    for (int byte = 0; byte < 256; ++byte) {
      if (begins[static_cast<size_t>(byte)] || byte == 0) lows.push_back(byte);
      range_of[static_cast<size_t>(byte)] = static_cast<uint16_t>(lows.size() - 1);
    }
    std::vector<std::vector<int32_t>> to(lows.size());
    for (const Edge* edge : edges) {
      for (size_t range = range_of[edge->low]; range <= range_of[edge->high]; ++range) {
        to[range].push_back(edge->to);
        ++work_;
      }
    }
    int32_t last = -1;
    for (size_t range = 0; range < to.size(); ++range) {
      const int32_t next = to[range].empty() ? -1 : Number(std::move(to[range]));
      const auto low = static_cast<uint8_t>(lows[range]);
      const auto high = static_cast<uint8_t>((range + 1 < lows.size() ? lows[range + 1] : 256) - 1);
      if (next >= 0 && next == last) {
        made_.edges.back().high = high;
      } else if (next >= 0) {
        made_.edges.push_back({from, next, EdgeKind::kByte, low, high, -1});
      }
      last = next;
    }
  }

  const FlatRules& flat_;
  const Lists out_;
  std::vector<uint8_t> seen_;  // [n_states], all 0 between calls
  FlatRules made_;
  std::vector<int32_t> needed_;
  std::map<int32_t, bool> needs_;
  NumberedSets sets_;  // those of one rule
  int32_t base_ = 0;
  size_t work_ = 0;
};

}  // namespace

FlatRules Determinized(const FlatRules& flat, int32_t root) { return RuleMaker(flat).Make(root); }

}  // namespace ng::grammar
