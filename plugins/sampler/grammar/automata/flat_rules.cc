#include "plugins/sampler/grammar/automata/flat_rules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ng::grammar {
namespace {

// Which states can come to the exit of their rule. With `only_free`, without a byte.
std::vector<uint8_t> Leaving(const Net& net, bool only_free) {
  const std::vector<Edge>& edges = net.edges();
  const std::vector<Rule>& rules = net.rules();
  const auto n_states = static_cast<size_t>(net.n_states());
  const Lists into(n_states, edges.size(), [&](size_t e) { return edges[e].to; });
  const Lists callers(rules.size(), edges.size(),
                      [&](size_t e) { return edges[e].calls() ? edges[e].rule : -1; });
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
    if (edge.reads() && only_free) return;
    if (edge.calls()) {
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
  if (!edge.calls()) return true;
  const int32_t entry = net.rules()[static_cast<size_t>(edge.rule)].part.in;
  return entry >= 0 && leaves[static_cast<size_t>(entry)] != 0;
}

// Pairs of a rule and a rule that it may begin with.
using Beginnings = std::vector<std::pair<int32_t, int32_t>>;

Beginnings FindBeginnings(const Net& net, std::span<const Edge> edges,
                          const std::vector<uint8_t>& empty) {
  const std::vector<Rule>& rules = net.rules();
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
        if (edge.reads()) continue;
        if (edge.calls()) {
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

// Ranks the rules so that one that begins with another one has the smaller rank. Rules that begin
// with none are taken off again and again; from those that stay, each way on comes to a circle, and
// a rule on that would never stop calling. Errors: UsageError with the rule's name.
absl::StatusOr<std::vector<int32_t>> Rank(const Net& net, const Beginnings& begins) {
  const size_t n_rules = net.rules().size();
  std::vector<int> ways(n_rules);
  for (const auto& [rule, first] : begins) ++ways[static_cast<size_t>(rule)];
  const Lists before(n_rules, begins.size(), [&](size_t i) { return begins[i].second; });
  std::vector<int32_t> ranks(n_rules, -1);
  std::vector<int32_t> order;
  for (size_t r = 0; r < n_rules; ++r) {
    if (ways[r] == 0) order.push_back(static_cast<int32_t>(r));
  }
  for (size_t i = 0; i < order.size(); ++i) {
    ranks[static_cast<size_t>(order[i])] = static_cast<int32_t>(n_rules - i);
    for (const size_t b : before[order[i]]) {
      if (--ways[static_cast<size_t>(begins[b].first)] == 0) order.push_back(begins[b].first);
    }
  }
  if (order.size() == n_rules) return ranks;
  std::vector<uint8_t> met(n_rules);
  auto at = static_cast<int32_t>(std::ranges::find(ranks, -1) - ranks.begin());
  while (std::exchange(met[static_cast<size_t>(at)], uint8_t{1}) == 0) {
    auto next = std::ranges::lower_bound(begins, std::pair(at, int32_t{0}));
    while (ways[static_cast<size_t>(next->second)] == 0) ++next;
    at = next->second;
  }
  return UsageError(absl::StrCat("rule '", net.rules()[static_cast<size_t>(at)].name,
                                 "' begins with itself (left recursion); write it with * or +, or "
                                 "with the recursion behind something that is read"));
}

}  // namespace

std::vector<uint8_t> MayEnd(const Net& net) { return Leaving(net, /*only_free=*/true); }

absl::Status CheckWritable(const Net& net, int32_t rule) {
  const int32_t entry = net.rules()[static_cast<size_t>(rule)].part.in;
  if (entry >= 0 && Leaving(net, /*only_free=*/false)[static_cast<size_t>(entry)] != 0) return {};
  return UsageError("matches no text at all");
}

absl::StatusOr<FlatRules> Flatten(const Net& net, int32_t root) {
  NG_RETURN_IF_ERROR(net.status());
  const std::vector<uint8_t> leaves = Leaving(net, /*only_free=*/false);
  const std::vector<uint8_t> empty = MayEnd(net);
  const int32_t entry = net.rules()[static_cast<size_t>(root)].part.in;
  if (entry < 0 || leaves[static_cast<size_t>(entry)] == 0) {
    return UsageError("matches no text at all");
  }
  FlatRules flat;
  flat.n_states = net.n_states();
  flat.rules = net.rules();
  flat.windows = net.windows();
  flat.exits.resize(static_cast<size_t>(net.n_states()));
  flat.may_be_empty = empty[static_cast<size_t>(entry)] != 0;
  for (const Edge& edge : net.edges()) {
    if (Stays(net, leaves, edge)) flat.edges.push_back(edge);
  }
  NG_ASSIGN_OR_RETURN(flat.ranks, Rank(net, FindBeginnings(net, flat.edges, empty)));
  const auto is_empty = [&](int32_t state) {
    return state >= 0 && empty[static_cast<size_t>(state)] != 0;
  };
  const size_t n_edges = flat.edges.size();
  for (size_t e = 0; e < n_edges; ++e) {
    const Edge edge = flat.edges[e];
    if (edge.kind != EdgeKind::kCall) continue;
    if (!is_empty(flat.rules[static_cast<size_t>(edge.rule)].part.in)) continue;
    flat.edges.push_back({edge.from, edge.to, EdgeKind::kFree, 0, 0, -1});
  }
  for (Rule& rule : flat.rules) {
    // As often as it likes, what is counted was nothing.
    if (is_empty(rule.part.in)) rule.count.least = 0;
    if (rule.part.out >= 0) {
      flat.exits[static_cast<size_t>(rule.part.out)] = rule.counts ? 2 : 1;
    }
  }
  return flat;
}

}  // namespace ng::grammar
