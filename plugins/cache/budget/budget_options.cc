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
  const bool ratio = options.Real("ratio") > 0.0;
  if (ratio && budget.tokens > 0) {
    return UsageError("cache.budget.tokens = " + std::to_string(budget.tokens) +
                      " and cache.budget.ratio are both set, must be one of them");
  }
  if (options.Text("when") == "prompt") {
    return UsageError(
        "cache.budget.when = prompt: that tokens leave at the end of a context is not there yet, "
        "can be: every");
  }
  if (ratio) {
    return UsageError(
        "cache.budget.ratio is a share of a context, of which cache.budget.when = every does not "
        "know the end; set cache.budget.tokens");
  }
  if (budget.tokens == 0) {
    return UsageError("cache.budget.tokens is not set: how many tokens of a sequence stay");
  }
  // Without overflow: both may be as large as they like.
  if (budget.sinks > budget.tokens || budget.recent > budget.tokens - budget.sinks) {
    return UsageError("cache.budget.tokens = " + std::to_string(budget.tokens) +
                      ", must be at least cache.budget.sinks = " + std::to_string(budget.sinks) +
                      " and cache.budget.recent = " + std::to_string(budget.recent) + " together");
  }
  return budget;
}

}  // namespace ng
