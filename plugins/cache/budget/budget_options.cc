#include "plugins/cache/budget/budget_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>

namespace ng {

namespace {

// As kBudgetOptions has it.
constexpr int64_t kTokensByDefault = 1024;

// A share says how many stay where no number does, and of what.
absl::Status CheckRatio(const OptionValues& options) {
  const double ratio = options.Real("ratio");
  if (ratio == 0.0) return absl::OkStatus();
  char shown[32];
  std::snprintf(shown, sizeof(shown), "%g", ratio);
  const std::string given = std::string("cache.budget.ratio = ") + shown;
  if (options.Text("when") != "prompt") {
    return UsageError(given +
                      " is a share of a context, whose length is known with cache.budget.when = "
                      "prompt alone; with every, cache.budget.tokens says how many stay");
  }
  const int64_t tokens = options.Int("tokens");
  if (tokens == kTokensByDefault) return absl::OkStatus();
  return UsageError(given + " and cache.budget.tokens = " + std::to_string(tokens) +
                    ": one of them says how many stay; with a ratio tokens must be " +
                    std::to_string(kTokensByDefault) + ", its default");
}

absl::Status TooFew(const std::string& given, const BudgetOptions& options) {
  return UsageError(given +
                    ", must be at least cache.budget.sinks = " + std::to_string(options.sinks) +
                    " and cache.budget.recent = " + std::to_string(options.recent) + " together");
}

// Without overflow: both may be as large as they like.
bool Holds(int64_t tokens, const BudgetOptions& options) {
  return options.sinks <= tokens && options.recent <= tokens - options.sinks;
}

// "256" or "0.25". False: it is neither.
bool ReadHowMany(std::string_view text, BudgetRuleName* rule) {
  const char* const end = text.data() + text.size();
  if (text.find('.') == text.npos) {
    const auto [stop, error] = std::from_chars(text.data(), end, rule->tokens);
    return error == std::errc() && stop == end && rule->tokens >= 1;
  }
  const auto [stop, error] = std::from_chars(text.data(), end, rule->ratio.emplace());
  return error == std::errc() && stop == end && *rule->ratio > 0.0 && *rule->ratio < 1.0;
}

absl::StatusOr<std::vector<BudgetRuleName>> ReadRules(const OptionValues& options,
                                                      const BudgetOptions& budget) {
  std::vector<BudgetRuleName> rules;
  std::string_view left = options.Text("rules");
  if (left.empty()) return rules;
  if (!budget.at_mark) {
    return UsageError(
        "cache.budget.rules are for sequences that have read their context; with "
        "cache.budget.when = every tokens leave meanwhile, and there are none");
  }
  while (!left.empty()) {
    const size_t end = std::min(left.find(','), left.size());
    const std::string_view rule = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    const std::string given = "cache.budget.rules: '" + std::string(rule) + "'";
    const size_t colon = std::min(rule.find(':'), rule.size());
    BudgetRuleName read = {.policy = std::string(rule.substr(0, colon))};
    if (colon == 0 || !ReadHowMany(rule.substr(std::min(colon + 1, rule.size())), &read)) {
      return UsageError(given +
                        " must be a policy and how many tokens stay, as in knorm:256, or which "
                        "share of the context, between 0 and 1, as in knorm:0.25");
    }
    if (!read.ratio && !Holds(read.tokens, budget)) return TooFew(given, budget);
    const auto same = [&](const BudgetRuleName& other) {
      return budget.With(other).RuleName() == budget.With(read).RuleName();
    };
    if (std::ranges::any_of(rules, same)) return UsageError(given + " is given twice");
    rules.push_back(read);
  }
  return rules;
}

}  // namespace

BudgetOptions BudgetOptions::With(const BudgetRuleName& rule) const {
  BudgetOptions options = *this;
  options.policy = rule.policy;
  options.tokens = rule.tokens;
  options.ratio = rule.ratio;
  options.rules.clear();
  return options;
}

std::string BudgetOptions::RuleName() const {
  char share[32];
  std::snprintf(share, sizeof(share), "%g", ratio.value_or(0.0));
  return policy + ":" + (ratio ? std::string(share) : std::to_string(tokens));
}

int64_t BudgetOptions::Kept(int64_t length) const {
  const auto share = static_cast<int64_t>(ratio.value_or(1.0) * static_cast<double>(length));
  return std::min(length, ratio ? std::max({share, sinks + recent, int64_t{1}}) : tokens);
}

// PyramidKV (Cai et al. 2024) as kvpress has it: from the first layer to the last the budgets fall
// by equal steps, to 1 / beta of the average, but no layer keeps more than there is beside what
// stays in any case. Where that leaves the last layer less than that, they are even. Where tokens
// leave again and again a layer's budget is the same each time, so it does not look at the length.
int64_t BudgetOptions::KeptIn(int64_t length, int layer, int n_layers) const {
  if (beta == 0 || (at_mark && Kept(length) >= length)) return Kept(length);
  const auto all = static_cast<double>(length);
  const auto least = static_cast<double>(sinks + recent);
  const double mean = ratio ? *ratio * all : static_cast<double>(tokens);
  double last = mean / static_cast<double>(beta);
  double first = 2.0 * mean - last;
  if (at_mark && first >= all - least) {
    first = all - least;
    last = 2.0 * mean - first;
  }
  const bool falls = n_layers > 1 && first >= last && last >= least && (!at_mark || first <= all);
  const double kept =
      std::nearbyint(falls ? first - layer * (first - last) / (n_layers - 1) : mean);
  return std::min(length, std::max({static_cast<int64_t>(kept), sinks + recent, int64_t{1}}));
}

int64_t BudgetOptions::MostKeptIn(const CacheSpec& spec, int layer, int n_layers) const {
  // By the length of a context some shorter one may have the largest budget in a pyramid; none is
  // above twice the mean.
  return at_mark && beta > 0 ? std::min(spec.max_tokens, 2 * Kept(spec.max_tokens) + 2)
                             : KeptIn(spec.max_tokens, layer, n_layers);
}

int64_t BudgetOptions::Slots(const CacheSpec& spec, int layer, int n_layers) const {
  if (at_mark) return spec.max_tokens;
  const int64_t kept = KeptIn(spec.max_tokens, layer, n_layers);
  return every >= spec.max_tokens || kept >= spec.max_tokens - every ? spec.max_tokens
                                                                     : kept + every;
}

int64_t BudgetOptions::LeastKept(int64_t kept) const {
  if (!safeguard) return kept;
  const auto safe = static_cast<int64_t>(*safeguard * static_cast<double>(kept));
  return std::min(kept, std::max(safe, sinks + recent));
}

int64_t BudgetOptions::MostSlots(const CacheSpec& spec, int layer, int n_layers) const {
  const int64_t slots = Slots(spec, layer, n_layers);
  if (slots == spec.max_tokens || spec.n_kv_heads == 0) return slots;
  // One has what the others may do without.
  const int64_t kept = KeptIn(spec.max_tokens, layer, n_layers);
  const int64_t most = kept + (spec.n_kv_heads - 1) * (kept - LeastKept(kept));
  return std::min(spec.max_tokens, most + every);
}

absl::StatusOr<BudgetOptions> ReadBudgetOptions(const OptionValues& options) {
  NG_RETURN_IF_ERROR(CheckRatio(options));
  BudgetOptions budget;
  budget.policy = options.Text("policy");
  budget.tokens = options.Int("tokens");
  budget.sinks = options.Int("sinks");
  budget.recent = options.Int("recent");
  budget.every = options.Int("every");
  budget.per_head = options.Text("per") == "head";
  budget.at_mark = options.Text("when") == "prompt";
  if (options.Text("layers") == "pyramid") budget.beta = options.Int("beta");
  if (options.Text("heads") == "adaptive") budget.safeguard = options.Real("safeguard");
  if (budget.safeguard && !budget.per_head) {
    return UsageError(
        "cache.budget.heads = adaptive and cache.budget.per = layer: with one choice for all kv "
        "heads of a layer they all keep as many; per must be head");
  }
  if (options.Real("ratio") > 0.0) {
    budget.ratio = options.Real("ratio");
    // No sequence has more of them.
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    budget.sinks = std::min(budget.sinks, kMost);
    budget.recent = std::min(budget.recent, kMost);
  } else if (!Holds(budget.tokens, budget)) {
    return TooFew("cache.budget.tokens = " + std::to_string(budget.tokens), budget);
  }
  NG_ASSIGN_OR_RETURN(budget.rules, ReadRules(options, budget));
  return budget;
}

}  // namespace ng
