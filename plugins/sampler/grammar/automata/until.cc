#include "plugins/sampler/grammar/automata/until.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <map>
#include <utility>
#include <vector>

#include "plugins/sampler/grammar/automata/number_table.h"

namespace ng::grammar {
namespace {

// The places of all beginnings that a text may be in are a set; each set is a state. That each
// beginning may begin anew is so in every set, and not said again in each: the first one is empty.
// Where a text goes on from a set is where it goes on from the set's base, and from its own places.
class UntilMaker {
 public:
  UntilMaker(std::span<const Beginning> beginnings, Net::Mark mark, Net& net)
      : beginnings_(beginnings),
        net_(net),
        first_(static_cast<int32_t>(mark.state)),
        out_(static_cast<size_t>(net.n_states()) - mark.state),
        seen_(out_.size()),
        sets_(out_.size()) {
    for (size_t e = mark.edge; e < net.edges().size(); ++e) {
      const Edge& edge = net.edges()[e];
      out_[Index(edge.from)].push_back(edge);
    }
    net.budget().Spend(out_.size() + net.edges().size() - mark.edge);
  }

  int32_t Make(int32_t end, FreeTokens* tokens) {
    std::vector<int32_t> again;
    std::vector<int32_t> first;
    for (size_t i = 0; i < beginnings_.size(); ++i) {
      first.push_back(beginnings_[i].part.in);
      if (!beginnings_[i].at_start) again.push_back(beginnings_[i].part.in);
      ends_.emplace(beginnings_[i].part.out - first_, i);
    }
    for (const int32_t place : Closed(again, kEnded)) {
      is_anew_[static_cast<size_t>(place)] = 1;
      AddAnew(out_[static_cast<size_t>(place)]);
    }
    Number(GrownSets::kNone, {});
    tokens->restart = numbers_[0];
    const int32_t begin = numbers_[static_cast<size_t>(Number(0, Closed(first, 0)))];
    for (size_t i = 0; i < sets_.size() && net_.status().ok(); ++i) {
      const auto set = static_cast<int32_t>(i);
      if (end >= 0) net_.Free(numbers_[i], end);
      AddBytes(set);
      AddTokens(set, tokens);
      tokens->states.push_back(numbers_[i]);
    }
    std::ranges::sort(tokens->but);
    return begin;
  }

 private:
  // Where something leads: to a set, or, below 0, to what stands behind a beginning: ~its number.
  using Target = int32_t;
  static constexpr Target kEnded = -1;
  struct Step {
    size_t low = 0;  // the first byte of a range
    Target target = 0;
  };

  size_t Index(int32_t state) const { return static_cast<size_t>(state - first_); }
  int32_t StateOf(Target target) const {
    if (target >= 0) return numbers_[static_cast<size_t>(target)];
    const Target beginning = ~target;
    return beginnings_[static_cast<size_t>(beginning)].to;
  }
  // The places of these states and of those reached from them for nothing, without those of a set
  // and of a text that begins.
  std::vector<int32_t> Closed(const std::vector<int32_t>& states, Target without) {
    std::vector<int32_t> places;
    size_t steps = states.size();
    const auto add = [&](int32_t state) {
      const auto place = state - first_;
      const auto index = static_cast<size_t>(place);
      if (is_anew_[index] != 0 || (without >= 0 && sets_.Holds(without, place))) return;
      if (std::exchange(seen_[index], uint8_t{1}) == 0) places.push_back(place);
    };
    for (const int32_t state : states) add(state);
    for (size_t i = 0; i < places.size(); ++i) {
      for (const Edge& edge : out_[static_cast<size_t>(places[i])]) {
        ++steps;
        if (edge.kind == EdgeKind::kFree) add(edge.to);
      }
    }
    for (const int32_t place : places) seen_[static_cast<size_t>(place)] = 0;
    net_.budget().Spend(steps + 4 * places.size());
    std::ranges::sort(places);
    return places;
  }
  int32_t Number(int32_t base, std::vector<int32_t> own) {
    const auto [number, is_new] = sets_.Number(base, std::move(own));
    if (is_new) numbers_.push_back(net_.NewState());
    return number;
  }
  // Where something leads that leads to these states, and from the base there.
  Target Next(Target below, const std::vector<int32_t>& to) {
    if (to.empty()) return below;
    std::vector<int32_t> own = Closed(to, below);
    size_t first = below < 0 ? static_cast<size_t>(~below) : beginnings_.size();
    for (const int32_t place : own) {
      const auto found = ends_.find(place);
      if (found != ends_.end()) first = std::min(first, found->second);
    }
    return first < beginnings_.size() ? ~static_cast<Target>(first) : Number(below, std::move(own));
  }

  // What begins a beginning anew.
  void AddAnew(const std::vector<Edge>& out) {
    for (const Edge& edge : out) {
      if (edge.kind == EdgeKind::kToken) anew_tokens_[edge.rule].push_back(edge.to);
      if (edge.kind == EdgeKind::kByte) anew_.push_back(edge);
    }
  }

  // The edges of a set's own places; the first set's are those of what begins anew.
  std::vector<Edge> BytesOf(int32_t set) const {
    if (set == 0) return anew_;
    std::vector<Edge> bytes;
    for (const int32_t place : sets_[set].own) {
      for (const Edge& edge : out_[static_cast<size_t>(place)]) {
        if (edge.kind == EdgeKind::kByte) bytes.push_back(edge);
      }
    }
    return bytes;
  }
  void AddBytes(int32_t set) {
    const std::vector<Edge> bytes = BytesOf(set);
    size_t below = set == 0 ? 0 : steps_at_[static_cast<size_t>(sets_[set].base)];
    const size_t below_end = set == 0 ? 0 : steps_at_[static_cast<size_t>(sets_[set].base) + 1];
    std::bitset<257> begins;
    begins.set(0);
    for (size_t i = below; i < below_end; ++i) begins.set(steps_[i].low);
    for (const Edge& edge : bytes) {
      begins.set(edge.low);
      begins.set(edge.high + size_t{1});
    }
    for (const Edge& edge : bytes) {
      for (size_t byte = edge.low; byte <= edge.high; ++byte) {
        if (begins[byte]) to_[byte].push_back(edge.to);
      }
      net_.budget().Spend(2 + static_cast<size_t>(edge.high - edge.low) / 4);
    }
    net_.budget().Spend(32);
    for (size_t low = 0; low < 256;) {
      size_t high = low;
      while (high < 255 && !begins[high + 1]) ++high;
      while (below + 1 < below_end && steps_[below + 1].low <= low) ++below;
      const std::vector<int32_t> to = std::exchange(to_[low], {});
      const Target target = Next(set == 0 ? 0 : steps_[below].target, to);
      net_.Byte(numbers_[static_cast<size_t>(set)], StateOf(target), static_cast<int>(low),
                static_cast<int>(high));
      steps_.push_back({low, target});
      low = high + 1;
    }
    steps_at_.push_back(steps_.size());
  }
  void AddTokens(int32_t set, FreeTokens* tokens) {
    const int32_t from = numbers_[static_cast<size_t>(set)];
    std::map<int32_t, std::vector<int32_t>> to;
    std::map<int32_t, Target> targets;
    if (set == 0) {
      to = anew_tokens_;
    } else {
      targets = token_targets_[static_cast<size_t>(sets_[set].base)];
      for (const int32_t place : sets_[set].own) {
        for (const Edge& edge : out_[static_cast<size_t>(place)]) {
          if (edge.kind == EdgeKind::kToken) to[edge.rule].push_back(edge.to);
        }
      }
    }
    net_.Token(from, tokens->restart, kOtherToken);
    for (const auto& [id, states] : to) {
      Target& target = targets.try_emplace(id, 0).first->second;
      target = Next(target, states);
    }
    for (const auto& [id, target] : targets) {
      net_.Token(from, StateOf(target), id);
      tokens->but.emplace_back(from, id);
    }
    net_.budget().Spend(8 * targets.size());
    token_targets_.push_back(std::move(targets));
  }

  std::span<const Beginning> beginnings_;
  Net& net_;
  const int32_t first_;                 // state
  std::vector<std::vector<Edge>> out_;  // of each state from that on, which is a place
  std::vector<uint8_t> seen_;           // all 0 between calls
  std::map<int32_t, size_t> ends_;      // the beginning that is read at that place
  std::vector<uint8_t> is_anew_ = std::vector<uint8_t>(out_.size());  // of a text that begins
  // Where bytes and tokens lead from there.
  std::vector<Edge> anew_;
  std::map<int32_t, std::vector<int32_t>> anew_tokens_;
  GrownSets sets_;                            // of places
  std::vector<int32_t> numbers_;              // [n_sets] in the net
  std::array<std::vector<int32_t>, 256> to_;  // by the first byte of a range; empty between calls
  std::vector<Step> steps_;                   // those of all sets
  std::vector<size_t> steps_at_ = {0};
  std::vector<std::map<int32_t, Target>> token_targets_;  // [n_sets]
};

}  // namespace

int32_t AddUntil(std::span<const Beginning> beginnings, Net::Mark mark, int32_t end, Net& net,
                 FreeTokens* tokens) {
  if (!net.status().ok()) return 0;  // then the beginnings may not be there
  return UntilMaker(beginnings, mark, net).Make(end, tokens);
}

}  // namespace ng::grammar
