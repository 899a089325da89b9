// A cache with a budget and a policy of a test's own.
#ifndef NG_TESTS_PLUGINS_CACHE_MAKE_BUDGET_H_
#define NG_TESTS_PLUGINS_CACHE_MAKE_BUDGET_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "ng/cache_store.h"
#include "ng/plugin.h"
#include "ng/policy.h"
#include "ng/tile_store.h"
#include "plugins/cache/budget/budget_store.h"

namespace ng::test {

inline std::vector<BudgetRule> OneRule(const BudgetOptions& options,
                                       std::unique_ptr<Policy> policy) {
  std::vector<BudgetRule> rules;
  rules.push_back({options.RuleName(), options, std::move(policy)});
  return rules;
}

inline absl::StatusOr<std::unique_ptr<CacheStore>> MakeBudget(const PluginContext& context,
                                                              const CacheSpec& spec,
                                                              std::vector<BudgetRule> rules) {
  NG_ASSIGN_OR_RETURN(const BudgetShape shape, ShapeOfBudget(spec, rules));
  NG_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, ReserveTiles(shape.pages.plan.bytes));
  return std::make_unique<BudgetStore>(context, spec, std::move(rules), shape, std::move(memory));
}

inline absl::StatusOr<std::unique_ptr<CacheStore>> MakeBudget(const PluginContext& context,
                                                              const CacheSpec& spec,
                                                              const BudgetOptions& options,
                                                              std::unique_ptr<Policy> policy) {
  return MakeBudget(context, spec, OneRule(options, std::move(policy)));
}

}  // namespace ng::test

#endif  // NG_TESTS_PLUGINS_CACHE_MAKE_BUDGET_H_
