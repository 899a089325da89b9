#include "plugins/sampler/grammar/automata/until.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <utility>

namespace ng::grammar {
namespace {

// The places of all beginnings that a text may be in are a set; each set is a state.
class UntilMaker {
 public:
  UntilMaker(std::span<const Beginning> beginnings, Net& net) : beginnings_(beginnings), net_(net) {
    std::vector<int32_t> fresh;
    for (const Beginning& one : beginnings) fresh.push_back(one.part.in);
    std::vector<uint8_t> seen(static_cast<size_t>(net.n_states()));
    std::vector<std::vector<Edge>> out(seen.size());
    for (const Edge& edge : net.edges()) out[static_cast<size_t>(edge.from)].push_back(edge);
    while (!fresh.empty()) {
      const int32_t state = fresh.back();
      fresh.pop_back();
      if (std::exchange(seen[static_cast<size_t>(state)], uint8_t{1}) != 0) continue;
      for (const Edge& edge : out[static_cast<size_t>(state)]) fresh.push_back(edge.to);
      out_[state] = std::move(out[static_cast<size_t>(state)]);
    }
  }

  int32_t Make(int32_t end, FreeTokens* tokens) {
    std::vector<int32_t> again;
    std::vector<int32_t> first;
    for (const Beginning& one : beginnings_) {
      first.push_back(one.part.in);
      if (!one.at_start) again.push_back(one.part.in);
    }
    again_ = Closed(std::move(again));
    tokens->restart = Number(again_);
    const int32_t begin = Number(Closed(std::move(first)));
    for (size_t i = 0; i < sets_.size() && net_.status().ok(); ++i) {
      const int32_t state = numbers_[i];
      if (end >= 0) net_.Free(state, end);
      const std::vector<int32_t> set = sets_[i];  // there will be more
      AddBytes(state, set);
      AddTokens(state, set, tokens);
      tokens->states.push_back(state);
    }
    std::ranges::sort(tokens->but);
    return begin;
  }

 private:
  std::vector<int32_t> Closed(std::vector<int32_t> states) const {
    for (size_t i = 0; i < states.size(); ++i) {
      for (const Edge& edge : out_.at(states[i])) {
        if (edge.kind != EdgeKind::kFree) continue;
        if (std::ranges::find(states, edge.to) == states.end()) states.push_back(edge.to);
      }
    }
    std::ranges::sort(states);
    states.erase(std::unique(states.begin(), states.end()), states.end());
    return states;
  }
  int32_t Number(const std::vector<int32_t>& set) {
    const auto [place, is_new] = known_.emplace(set, 0);
    if (is_new) {
      place->second = net_.NewState();
      sets_.push_back(set);
      numbers_.push_back(place->second);
    }
    return place->second;
  }
  // Where something leads that leads here from a set.
  int32_t Target(std::vector<int32_t> states) {
    states.insert(states.end(), again_.begin(), again_.end());
    const std::vector<int32_t> set = Closed(std::move(states));
    net_.budget().Spend(set.size());
    for (const Beginning& one : beginnings_) {
      if (std::ranges::binary_search(set, one.part.out)) return one.to;
    }
    return Number(set);
  }

  void AddBytes(int32_t from, const std::vector<int32_t>& set) {
    std::bitset<257> begins;
    begins.set(0);
    for (const int32_t state : set) {
      for (const Edge& edge : out_.at(state)) {
        if (edge.kind != EdgeKind::kByte) continue;
        begins.set(edge.low);
        begins.set(edge.high + size_t{1});
      }
    }
    for (int low = 0; low < 256;) {
      int high = low;
      while (high < 255 && !begins[static_cast<size_t>(high) + 1]) ++high;
      std::vector<int32_t> to;
      for (const int32_t state : set) {
        for (const Edge& edge : out_.at(state)) {
          if (edge.kind == EdgeKind::kByte && edge.low <= low && low <= edge.high) {
            to.push_back(edge.to);
          }
        }
      }
      net_.Byte(from, Target(std::move(to)), low, high);
      low = high + 1;
    }
  }
  void AddTokens(int32_t from, const std::vector<int32_t>& set, FreeTokens* tokens) {
    std::map<int32_t, std::vector<int32_t>> to;
    for (const int32_t state : set) {
      for (const Edge& edge : out_.at(state)) {
        if (edge.kind == EdgeKind::kToken) to[edge.rule].push_back(edge.to);
      }
    }
    net_.Token(from, tokens->restart, kOtherToken);
    for (auto& [id, states] : to) {
      net_.Token(from, Target(std::move(states)), id);
      tokens->but.emplace_back(from, id);
    }
  }

  std::span<const Beginning> beginnings_;
  Net& net_;
  std::map<int32_t, std::vector<Edge>> out_;  // of the beginnings' states
  std::vector<int32_t> again_;                // the set of a text that begins
  std::map<std::vector<int32_t>, int32_t> known_;
  std::vector<std::vector<int32_t>> sets_;
  std::vector<int32_t> numbers_;  // [n_sets] in the net
};

}  // namespace

int32_t AddUntil(std::span<const Beginning> beginnings, int32_t end, Net& net, FreeTokens* tokens) {
  return UntilMaker(beginnings, net).Make(end, tokens);
}

}  // namespace ng::grammar
