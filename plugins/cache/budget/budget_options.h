// What the cache `budget` is told: how many tokens stay, which ones in any case, and when others
// leave.
#ifndef NG_PLUGINS_CACHE_BUDGET_BUDGET_OPTIONS_H_
#define NG_PLUGINS_CACHE_BUDGET_BUDGET_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
                 "same ones, by the mean of their scores"),
    ChoiceOption("layers", "even", "even|pyramid",
                 "even: as many tokens stay in every layer; pyramid: as many on the average, more "
                 "in the first layers and fewer in the last ones"),
    IntOption("beta", 20, {.min = 1, .max = 1 << 20},
              "with layers = pyramid: the last layer keeps this part of the average"),
    ChoiceOption("heads", "even", "even|adaptive",
                 "even: every kv head of a layer keeps as many tokens; adaptive: as many on the "
                 "average, those of the best scores in any of them"),
    RealOption("safeguard", 0.2, {.min = 0.0, .max = 1.0},
               "with heads = adaptive: every kv head keeps at least this share of the average"),
    TextOption(
        "rules", "",
        "with when = prompt: other policies with other numbers of tokens, or shares of the "
        "context, "
        "that a sequence may be told to go by, knorm:256,snapkv:0.25; ng-eval's card uses them")};

// Another policy, and how many tokens stay.
struct BudgetRuleName {
  std::string policy;
  int64_t tokens = 1;
  std::optional<double> ratio = {};  // in place of tokens
};

struct BudgetOptions {
  std::string policy = {};
  int64_t tokens = 1;
  int64_t sinks = 0;
  int64_t recent = 0;
  int64_t every = 1;
  bool per_head = true;
  bool at_mark = false;                  // when = prompt
  std::optional<double> ratio = {};      // in place of tokens
  int64_t beta = 0;                      // layers = pyramid; 0: even
  std::optional<double> safeguard = {};  // heads = adaptive
  std::vector<BudgetRuleName> rules = {};

  // The same with what a rule says.
  BudgetOptions With(const BudgetRuleName& rule) const;
  // "knorm:256", with a ratio "knorm:0.25".
  std::string RuleName() const;

  // How many stay of `length` tokens when some may leave, on the average of all layers.
  int64_t Kept(int64_t length) const;
  // In one of so many layers.
  int64_t KeptIn(int64_t length, int layer, int n_layers) const;
  // The most tokens that stay there, of a sequence of any length.
  int64_t MostKeptIn(const CacheSpec& spec, int layer, int n_layers) const;
  // Of so many that stay in a layer on the average of its kv heads, each of them keeps so many.
  int64_t LeastKept(int64_t kept) const;
  // The most tokens that are held of a sequence in one of so many layers, on the average of its kv
  // heads, and in one of them.
  int64_t Slots(const CacheSpec& spec, int layer, int n_layers) const;
  int64_t MostSlots(const CacheSpec& spec, int layer, int n_layers) const;
};

// Errors: UsageError for what does not go together.
absl::StatusOr<BudgetOptions> ReadBudgetOptions(const OptionValues& options);

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_BUDGET_BUDGET_OPTIONS_H_
