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
// beginning may begin anew is so in every set, and not said again in each.
class UntilMaker {
 public:
  UntilMaker(std::span<const Beginning> beginnings, Net::Mark mark, Net& net)
      : beginnings_(beginnings),
        net_(net),
        first_(static_cast<int32_t>(mark.state)),
        out_(static_cast<size_t>(net.n_states()) - mark.state),
        seen_(out_.size()) {
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
      ends_.emplace(beginnings_[i].part.out, i);
    }
    for (const int32_t state : Closed(std::move(again))) {
      is_anew_[Index(state)] = 1;
      AddAnew(out_[Index(state)]);
    }
    tokens->restart = Number({});
    const int32_t begin = Number(Closed(std::move(first)));
    for (size_t i = 0; i < sets_.size() && net_.status().ok(); ++i) {
      const int32_t state = numbers_[i];
      if (end >= 0) net_.Free(state, end);
      std::vector<Edge> out;
      for (const int32_t member : sets_[i]) {
        const std::vector<Edge>& more = out_[Index(member)];
        out.insert(out.end(), more.begin(), more.end());
      }
      AddBytes(state, out);
      AddTokens(state, out, tokens);
      tokens->states.push_back(state);
    }
    std::ranges::sort(tokens->but);
    return begin;
  }

 private:
  size_t Index(int32_t state) const { return static_cast<size_t>(state - first_); }
  // Without those of a text that begins.
  std::vector<int32_t> Closed(std::vector<int32_t> states) {
    const auto is_known = [this](int32_t state) {
      return std::exchange(seen_[Index(state)], uint8_t{1}) != 0;
    };
    std::erase_if(states, is_known);
    for (size_t i = 0; i < states.size(); ++i) {
      for (const Edge& edge : out_[Index(states[i])]) {
        if (edge.kind == EdgeKind::kFree && !is_known(edge.to)) states.push_back(edge.to);
      }
    }
    for (const int32_t state : states) seen_[Index(state)] = 0;
    std::erase_if(states, [this](int32_t state) { return is_anew_[Index(state)] != 0; });
    std::ranges::sort(states);
    return states;
  }
  int32_t Number(std::vector<int32_t> set) {
    const auto [number, is_new] = sets_.Number(std::move(set));
    if (is_new) numbers_.push_back(net_.NewState());
    return numbers_[static_cast<size_t>(number)];
  }
  // Where something leads that leads here.
  int32_t Target(std::vector<int32_t> states) {
    std::vector<int32_t> set = Closed(std::move(states));
    net_.budget().Spend(4 * set.size() + 1);
    size_t first = beginnings_.size();
    for (const int32_t state : set) {
      const auto found = ends_.find(state);
      if (found != ends_.end()) first = std::min(first, found->second);
    }
    return first < beginnings_.size() ? beginnings_[first].to : Number(std::move(set));
  }

  // What begins a beginning anew.
  void AddAnew(const std::vector<Edge>& out) {
    for (const Edge& edge : out) {
      if (edge.kind == EdgeKind::kToken) anew_tokens_[edge.rule].push_back(edge.to);
      if (edge.kind != EdgeKind::kByte) continue;
      anew_begins_.set(edge.low);
      anew_begins_.set(edge.high + size_t{1});
      for (size_t byte = edge.low; byte <= edge.high; ++byte) anew_[byte].push_back(edge.to);
      net_.budget().Spend(1 + static_cast<size_t>(edge.high - edge.low) / 16);
    }
  }
  int32_t TargetOf(size_t byte, std::vector<int32_t> to) {
    int32_t& anew = anew_target_[byte];
    if (to.empty() && anew >= 0) return anew;
    const bool only_anew = to.empty();
    to.insert(to.end(), anew_[byte].begin(), anew_[byte].end());
    const int32_t target = Target(std::move(to));
    if (only_anew) anew = target;
    return target;
  }

  void AddBytes(int32_t from, const std::vector<Edge>& out) {
    std::bitset<257> begins = anew_begins_;
    for (const Edge& edge : out) {
      if (edge.kind != EdgeKind::kByte) continue;
      begins.set(edge.low);
      begins.set(edge.high + size_t{1});
    }
    for (int low = 0; low < 256;) {
      int high = low;
      while (high < 255 && !begins[static_cast<size_t>(high) + 1]) ++high;
      std::vector<int32_t> to;
      for (const Edge& edge : out) {
        if (edge.kind == EdgeKind::kByte && edge.low <= low && low <= edge.high) {
          to.push_back(edge.to);
        }
      }
      net_.Byte(from, TargetOf(static_cast<size_t>(low), std::move(to)), low, high);
      low = high + 1;
    }
  }
  void AddTokens(int32_t from, const std::vector<Edge>& out, FreeTokens* tokens) {
    std::map<int32_t, std::vector<int32_t>> to = anew_tokens_;
    for (const Edge& edge : out) {
      if (edge.kind == EdgeKind::kToken) to[edge.rule].push_back(edge.to);
    }
    net_.Token(from, tokens->restart, kOtherToken);
    for (auto& [id, states] : to) {
      net_.Token(from, Target(std::move(states)), id);
      tokens->but.emplace_back(from, id);
    }
  }

  std::span<const Beginning> beginnings_;
  Net& net_;
  const int32_t first_;                 // state
  std::vector<std::vector<Edge>> out_;  // of each state from that on
  std::vector<uint8_t> seen_;           // all 0 between calls
  std::map<int32_t, size_t> ends_;      // the beginning that is read there
  std::vector<uint8_t> is_anew_ = std::vector<uint8_t>(out_.size());  // of a text that begins
  // Where bytes and tokens lead from there.
  std::bitset<257> anew_begins_;
  std::array<std::vector<int32_t>, 256> anew_;
  std::vector<int32_t> anew_target_ = std::vector<int32_t>(256, -1);
  std::map<int32_t, std::vector<int32_t>> anew_tokens_;
  NumberedSets sets_;
  std::vector<int32_t> numbers_;  // [n_sets] in the net
};

}  // namespace

int32_t AddUntil(std::span<const Beginning> beginnings, Net::Mark mark, int32_t end, Net& net,
                 FreeTokens* tokens) {
  if (!net.status().ok()) return 0;  // then the beginnings may not be there
  return UntilMaker(beginnings, mark, net).Make(end, tokens);
}

}  // namespace ng::grammar
