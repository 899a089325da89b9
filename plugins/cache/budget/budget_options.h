// What the cache `budget` is told: how many tokens stay, which ones in any case, and when others
// leave.
#ifndef NG_PLUGINS_CACHE_BUDGET_BUDGET_OPTIONS_H_
#define NG_PLUGINS_CACHE_BUDGET_BUDGET_OPTIONS_H_

#include <cstdint>
#include <string>

#include "ng/cache_store.h"
#include "ng/option.h"
#include "ng/plugin.h"
#include "ng/status.h"

namespace ng {

inline constexpr OptionSpec kBudgetOptions[] = {
    TextOption("policy", "window", "the policy that says which tokens stay: --list-plugins"),
    WithExample(IntOption("tokens", 0, {.min = 0},
                          "of a sequence so many stay, sinks and newest among them; 0: not set"),
                "1024"),
    RealOption("ratio", 0, {.min = 0, .max = 1},
               "the share of a context that stays, with when = prompt; 0: not set"),
    IntOption("sinks", 4, {.min = 0}, "the first tokens, which always stay"),
    IntOption("recent", 32, {.min = 0}, "the newest tokens, which always stay"),
    ChoiceOption("when", "every", "every|prompt",
                 "every: tokens leave at multiples of `every` positions; prompt: at the end of the "
                 "context (not there yet)"),
    IntOption("every", 128, {.min = 1}, "tokens leave at multiples of so many positions"),
    ChoiceOption("per", "head", "head|layer",
                 "head: each kv head keeps tokens of its own; layer: all heads of a layer keep the "
                 "same ones, by the mean of their scores")};

struct BudgetOptions {
  std::string policy = {};
  int64_t tokens = 0;
  int64_t sinks = 0;
  int64_t recent = 0;
  int64_t every = 1;
  bool per_head = true;

  // The most tokens that are held of a sequence.
  int64_t Slots(const CacheSpec& spec) const;
};

// Errors: UsageError for what does not go together, and for what is not there yet.
absl::StatusOr<BudgetOptions> ReadBudgetOptions(const OptionValues& options);

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_BUDGET_BUDGET_OPTIONS_H_
