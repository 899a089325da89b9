#include "plugins/sampler/grammar/program.h"

#include <algorithm>
#include <bitset>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ng::grammar {
namespace {

// Lists of edges (or of rules) by a state (or by a rule), as one array.
class Lists {
 public:
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

// Which states can come to the exit of their rule. With `only_free`, without a byte.
std::vector<uint8_t> Leaving(const Net& net, bool only_free) {
  const std::vector<Edge>& edges = net.edges();
  const std::vector<Rule>& rules = net.rules();
  const auto n_states = static_cast<size_t>(net.n_states());
  const Lists into(n_states, edges.size(), [&](size_t e) { return edges[e].to; });
  const Lists callers(rules.size(), edges.size(), [&](size_t e) { return edges[e].rule; });
  const Lists entries(n_states, rules.size(), [&](size_t r) { return rules[r].part.in; });
  std::vector<uint8_t> leaves(n_states);
  std::vector<int32_t> fresh;
  const auto reach = [&](int32_t state) {
    if (leaves[static_cast<size_t>(state)] != 0) return;
    leaves[static_cast<size_t>(state)] = 1;
    fresh.push_back(state);
  };
  const auto try_edge = [&](const Edge& edge) {
    if (leaves[static_cast<size_t>(edge.to)] == 0) return;
    if (edge.kind == EdgeKind::kByte && only_free) return;
    if (edge.kind == EdgeKind::kCall) {
      const int32_t entry = rules[static_cast<size_t>(edge.rule)].part.in;
      if (entry < 0 || leaves[static_cast<size_t>(entry)] == 0) return;
    }
    reach(edge.from);
  };
  for (const Rule& rule : rules) {
    if (rule.part.out >= 0) reach(rule.part.out);
  }
  while (!fresh.empty()) {
    const int32_t state = fresh.back();
    fresh.pop_back();
    for (const size_t e : into[state]) try_edge(edges[e]);
    for (const size_t rule : entries[state]) {
      for (const size_t e : callers[static_cast<int32_t>(rule)]) try_edge(edges[e]);
    }
  }
  return leaves;
}

// Whether the edge is left when what never comes to an end is gone.
bool Stays(const Net& net, const std::vector<uint8_t>& leaves, const Edge& edge) {
  if (leaves[static_cast<size_t>(edge.to)] == 0) return false;
  if (edge.kind != EdgeKind::kCall) return true;
  const int32_t entry = net.rules()[static_cast<size_t>(edge.rule)].part.in;
  return entry >= 0 && leaves[static_cast<size_t>(entry)] != 0;
}

// Pairs of a rule and a rule that it may begin with.
using Beginnings = std::vector<std::pair<int32_t, int32_t>>;

Beginnings FindBeginnings(const Net& net, std::span<const Edge> edges) {
  const std::vector<Rule>& rules = net.rules();
  const std::vector<uint8_t> empty = Leaving(net, /*only_free=*/true);
  const auto n_states = static_cast<size_t>(net.n_states());
  const Lists out(n_states, edges.size(), [&](size_t e) { return edges[e].from; });
  Beginnings found;
  std::vector<int32_t> seen(n_states, -1);
  for (size_t r = 0; r < rules.size(); ++r) {
    if (rules[r].part.in < 0) continue;
    // The states that are reached without a byte.
    std::vector<int32_t> fresh = {rules[r].part.in};
    seen[static_cast<size_t>(fresh[0])] = static_cast<int32_t>(r);
    while (!fresh.empty()) {
      const int32_t state = fresh.back();
      fresh.pop_back();
      for (const size_t e : out[state]) {
        const Edge& edge = edges[e];
        if (edge.kind == EdgeKind::kByte) continue;
        if (edge.kind == EdgeKind::kCall) {
          found.emplace_back(r, edge.rule);
          const int32_t entry = rules[static_cast<size_t>(edge.rule)].part.in;
          if (entry < 0 || empty[static_cast<size_t>(entry)] == 0) continue;
        }
        int32_t& mark = seen[static_cast<size_t>(edge.to)];
        if (mark == static_cast<int32_t>(r)) continue;
        mark = static_cast<int32_t>(r);
        fresh.push_back(edge.to);
      }
    }
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// A rule on a circle of beginnings; -1: there is none. Rules that begin with none are taken off
// again and again; from those that stay, each way on comes to a circle.
int32_t FindCircle(const Beginnings& begins, size_t n_rules) {
  std::vector<int> ways(n_rules);
  for (const auto& [rule, first] : begins) ++ways[static_cast<size_t>(rule)];
  const Lists before(n_rules, begins.size(), [&](size_t i) { return begins[i].second; });
  std::vector<int32_t> fresh;
  for (size_t r = 0; r < n_rules; ++r) {
    if (ways[r] == 0) fresh.push_back(static_cast<int32_t>(r));
  }
  while (!fresh.empty()) {
    const int32_t rule = fresh.back();
    fresh.pop_back();
    for (const size_t i : before[rule]) {
      if (--ways[static_cast<size_t>(begins[i].first)] == 0) fresh.push_back(begins[i].first);
    }
  }
  const auto left = std::ranges::find_if(ways, [](int n) { return n > 0; });
  if (left == ways.end()) return -1;
  std::vector<uint8_t> met(n_rules);
  auto at = static_cast<size_t>(left - ways.begin());
  while (std::exchange(met[at], uint8_t{1}) == 0) {
    const auto next = std::ranges::find_if(begins, [&](const auto& pair) {
      return static_cast<size_t>(pair.first) == at && ways[static_cast<size_t>(pair.second)] > 0;
    });
    at = static_cast<size_t>(next->second);
  }
  return static_cast<int32_t>(at);
}

// A rule that may call itself before it has read a byte would never stop calling. Errors:
// UsageError with the rule's name.
absl::Status CheckLeftRecursion(const Net& net, std::span<const Edge> edges) {
  const int32_t rule = FindCircle(FindBeginnings(net, edges), net.rules().size());
  if (rule < 0) return absl::OkStatus();
  return UsageError(absl::StrCat("rule '", net.rules()[static_cast<size_t>(rule)].name,
                                 "' begins with itself (left recursion); write it with * or +, or "
                                 "with the recursion behind something that is read"));
}

}  // namespace

absl::StatusOr<Program> Program::Make(const Net& net, int32_t root) {
  NG_RETURN_IF_ERROR(net.status());
  const std::vector<uint8_t> leaves = Leaving(net, /*only_free=*/false);
  std::vector<Edge> edges;
  for (const Edge& edge : net.edges()) {
    if (Stays(net, leaves, edge)) edges.push_back(edge);
  }
  Program program;
  program.entry_ = net.rules()[static_cast<size_t>(root)].part.in;
  if (program.entry_ < 0 || leaves[static_cast<size_t>(program.entry_)] == 0) {
    return UsageError("matches no text at all");
  }
  NG_RETURN_IF_ERROR(CheckLeftRecursion(net, edges));
  program.SetClasses(edges);
  program.SetRows(edges, net);
  return program;
}

void Program::SetClasses(std::span<const Edge> edges) {
  std::bitset<257> begins;
  for (const Edge& edge : edges) {
    if (edge.kind != EdgeKind::kByte) continue;
    begins.set(edge.low);
    begins.set(edge.high + size_t{1});
  }
  n_classes_ = 1;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (byte > 0 && begins[byte]) ++n_classes_;
    class_of_[byte] = static_cast<uint8_t>(n_classes_ - 1);
  }
}

void Program::SetRows(std::span<const Edge> edges, const Net& net) {
  const auto n_states = static_cast<size_t>(net.n_states());
  const Lists out(n_states, edges.size(), [&](size_t e) { return edges[e].from; });
  alias_ = net.alias();
  exit_.assign(n_states, 0);
  for (const Rule& rule : net.rules()) {
    if (rule.part.out >= 0) exit_[static_cast<size_t>(rule.part.out)] = 1;
  }
  for (size_t state = 0; state < n_states; ++state) {
    reads_at_.push_back(static_cast<int32_t>(reads_.size()));
    free_at_.push_back(static_cast<int32_t>(free_.size()));
    calls_at_.push_back(static_cast<int32_t>(calls_.size()));
    for (const size_t e : out[static_cast<int32_t>(state)]) {
      const Edge& edge = edges[e];
      if (edge.kind == EdgeKind::kByte) {
        reads_.push_back({ClassOf(edge.low), ClassOf(edge.high), edge.to});
      } else if (edge.kind == EdgeKind::kCall) {
        calls_.push_back({net.rules()[static_cast<size_t>(edge.rule)].part.in, edge.to});
      } else {
        free_.push_back(edge.to);
      }
    }
    if (exit_[state] != 0 && out[static_cast<int32_t>(state)].empty()) exit_[state] = 2;
  }
  reads_at_.push_back(static_cast<int32_t>(reads_.size()));
  free_at_.push_back(static_cast<int32_t>(free_.size()));
  calls_at_.push_back(static_cast<int32_t>(calls_.size()));
}

}  // namespace ng::grammar
