#include "plugins/cache/budget/budget_options.h"

#include <algorithm>

namespace ng {

int64_t BudgetOptions::Slots(const CacheSpec& spec) const {
  return every >= spec.max_tokens || tokens >= spec.max_tokens - every ? spec.max_tokens
                                                                       : tokens + every;
}

absl::StatusOr<BudgetOptions> ReadBudgetOptions(const OptionValues& options) {
  BudgetOptions budget;
  budget.policy = options.Text("policy");
  budget.tokens = options.Int("tokens");
  budget.sinks = options.Int("sinks");
  budget.recent = options.Int("recent");
  budget.every = options.Int("every");
  budget.per_head = options.Text("per") == "head";
  // Without overflow: both may be as large as they like.
  if (budget.sinks > budget.tokens || budget.recent > budget.tokens - budget.sinks) {
    return UsageError("cache.budget.tokens = " + std::to_string(budget.tokens) +
                      ", must be at least cache.budget.sinks = " + std::to_string(budget.sinks) +
                      " and cache.budget.recent = " + std::to_string(budget.recent) + " together");
  }
  return budget;
}

}  // namespace ng
