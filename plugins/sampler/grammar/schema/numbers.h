// Numbers as texts: which spellings are within bounds.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_NUMBERS_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_NUMBERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "plugins/sampler/grammar/automata/dfa.h"

namespace ng::grammar {

using Json = nlohmann::ordered_json;

// Which results of a comparison with a number are allowed.
struct NumberLimit {
  Json number;
  bool less = false;
  bool equal = false;
  bool greater = false;
};

struct NumberRules {
  bool integers = true;
  bool fractions = true;  // numbers that are no integers
  std::vector<NumberLimit> limits;
  std::vector<Json> multiples_of;
  std::vector<Json> no_multiples_of;
};

// One number. With limits it has at most 15 digits and no exponent, so that a reader's double is on
// the same side of each limit as the text.
// Errors: UsageError for a limit with too many digits, or a divisor that is not above 0 or has too
// many.
absl::StatusOr<Part> AddNumber(const NumberRules& rules, Net& net);
// Whether a number is one of the divisor's multiples, as decimals.
absl::StatusOr<bool> IsMultiple(const Json& number, const Json& divisor);

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_NUMBERS_H_
