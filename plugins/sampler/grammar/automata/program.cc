#include "plugins/sampler/grammar/automata/program.h"

#include <algorithm>
#include <bitset>
#include <utility>

#include "plugins/sampler/grammar/automata/flat_rules.h"

namespace ng::grammar {

absl::StatusOr<Program> Program::Make(const Net& net, int32_t root) {
  NG_ASSIGN_OR_RETURN(FlatRules flat, Flatten(net, root));
  flat = Determinized(flat, root);
  Program program;
  program.root_ = root;
  program.may_be_empty_ = flat.may_be_empty;
  for (size_t r = 0; r < flat.rules.size(); ++r) {
    const Rule& rule = flat.rules[r];
    program.rules_.push_back({rule.part.in, flat.ranks[r], rule.counts, rule.count, rule.slack});
  }
  program.SetClasses(flat);
  program.SetRows(flat);
  return program;
}

void Program::SetClasses(const FlatRules& flat) {
  std::bitset<257> begins;
  for (const Edge& edge : flat.edges) {
    if (edge.kind == EdgeKind::kToken) {
      reads_others_ = reads_others_ || edge.rule == kOtherToken;
      if (edge.rule != kOtherToken) tokens_.push_back(edge.rule);
    }
    if (edge.kind != EdgeKind::kByte) continue;
    begins.set(edge.low);
    begins.set(edge.high + size_t{1});
  }
  n_classes_ = 1;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (byte > 0 && begins[byte]) ++n_classes_;
    class_of_[byte] = static_cast<uint8_t>(n_classes_ - 1);
  }
  std::ranges::sort(tokens_);
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end()), tokens_.end());
  n_classes_ += static_cast<int>(tokens_.size()) + 1;
}

void Program::SetRows(const FlatRules& flat) {
  const auto n_states = static_cast<size_t>(flat.n_states);
  const Lists out(n_states, flat.edges.size(), [&](size_t e) { return flat.edges[e].from; });
  exit_ = flat.exits;
  for (size_t state = 0;; ++state) {
    reads_at_.push_back(static_cast<int32_t>(reads_.size()));
    free_at_.push_back(static_cast<int32_t>(free_.size()));
    calls_at_.push_back(static_cast<int32_t>(calls_.size()));
    counts_at_.push_back(static_cast<int32_t>(counts_.size()));
    if (state == n_states) break;
    const std::span<const size_t> edges = out[static_cast<int32_t>(state)];
    for (const size_t e : edges) {
      const Edge& edge = flat.edges[e];
      if (edge.kind == EdgeKind::kByte) {
        reads_.push_back({ClassOf(edge.low), ClassOf(edge.high), edge.to});
      } else if (edge.kind == EdgeKind::kToken) {
        const auto place =
            edge.rule == kOtherToken ? tokens_.end() : std::ranges::lower_bound(tokens_, edge.rule);
        const uint16_t token = ClassOfToken(static_cast<size_t>(place - tokens_.begin()));
        reads_.push_back({token, token, edge.to});
      } else if (edge.kind == EdgeKind::kCount) {
        counts_.push_back({edge.to, flat.windows[static_cast<size_t>(edge.rule)]});
      } else if (edge.calls()) {
        calls_.push_back({edge.rule, edge.to});
      } else {
        free_.push_back(edge.to);
      }
    }
    if (exit_[state] == kExit && edges.empty()) exit_[state] = kOnlyExit;
  }
}

}  // namespace ng::grammar
