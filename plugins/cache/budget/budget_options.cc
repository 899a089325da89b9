#include "plugins/cache/budget/budget_options.h"

#include <algorithm>
#include <cstdio>
#include <limits>

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

}  // namespace

int64_t BudgetOptions::Kept(int64_t length) const {
  const auto share = static_cast<int64_t>(ratio.value_or(1.0) * static_cast<double>(length));
  return std::min(length, ratio ? std::max({share, sinks + recent, int64_t{1}}) : tokens);
}

int64_t BudgetOptions::Slots(const CacheSpec& spec) const {
  if (at_mark) return spec.max_tokens;
  return every >= spec.max_tokens || tokens >= spec.max_tokens - every ? spec.max_tokens
                                                                       : tokens + every;
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
  if (options.Real("ratio") > 0.0) {
    budget.ratio = options.Real("ratio");
    // No sequence has more of them.
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    budget.sinks = std::min(budget.sinks, kMost);
    budget.recent = std::min(budget.recent, kMost);
    return budget;
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
