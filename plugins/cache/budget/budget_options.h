// What the cache `budget` is told: how many tokens stay, which ones in any case, and when others
// leave.
#ifndef NG_PLUGINS_CACHE_BUDGET_BUDGET_OPTIONS_H_
#define NG_PLUGINS_CACHE_BUDGET_BUDGET_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "ng/cache_store.h"
#include "ng/option.h"
#include "ng/plugin.h"
#include "ng/status.h"

namespace ng {

inline constexpr OptionSpec kBudgetOptions[] = {
    TextOption("policy", "window", "the policy that says which tokens stay: --list-plugins"),
    IntOption("tokens", 1024, {.min = 1},
              "of a sequence so many stay, sinks and newest among them"),
    RealOption("ratio", 0.0, {.min = 0.0, .max = 1.0},
               "in place of tokens, with when = prompt: this share of the context stays, and at "
               "least sinks and newest; 0: tokens says it"),
    IntOption("sinks", 4, {.min = 0}, "the first tokens, which always stay"),
    IntOption("recent", 32, {.min = 0}, "the newest tokens, which always stay"),
    ChoiceOption("when", "every", "every|prompt",
                 "every: tokens leave at multiples of `every` positions; prompt: once, where the "
                 "context of a prompt ends, which is held as a whole until then"),
    IntOption("every", 128, {.min = 1}, "tokens leave at multiples of so many positions"),
    ChoiceOption("per", "head", "head|layer",
                 "head: each kv head keeps tokens of its own; layer: all heads of a layer keep the "
                 "same ones, by the mean of their scores")};

struct BudgetOptions {
  std::string policy = {};
  int64_t tokens = 1;
  int64_t sinks = 0;
  int64_t recent = 0;
  int64_t every = 1;
  bool per_head = true;
  bool at_mark = false;              // when = prompt
  std::optional<double> ratio = {};  // in place of tokens

  // How many stay of `length` tokens when some may leave.
  int64_t Kept(int64_t length) const;
  // The most tokens that are held of a sequence.
  int64_t Slots(const CacheSpec& spec) const;
};

// Errors: UsageError for what does not go together.
absl::StatusOr<BudgetOptions> ReadBudgetOptions(const OptionValues& options);

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_BUDGET_BUDGET_OPTIONS_H_
