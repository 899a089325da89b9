// What a card compares with the full cache: policies at budgets, and codecs.
#ifndef NG_APPS_EVAL_LAB_METHODS_H_
#define NG_APPS_EVAL_LAB_METHODS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/eval/command_line.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::eval {

using Json = nlohmann::ordered_json;

inline constexpr std::string_view kFull = "full";  // all tokens, in f32
// The full cache again, of prompts without their context: what an answer by luck is worth.
inline constexpr std::string_view kFloor = "no context";

struct Method {
  std::string name;      // "knorm 256", "int8", "full"
  std::string policy;    // "knorm"; empty: none
  Budget budget;         // with a policy
  std::string rule;      // of cache.budget.rules, where tokens leave at the end of a context
  std::string chosen;    // what --card and --budgets call it: "--card=knorm --budgets=256"
  EngineOptions engine;  // of the command line, with what makes it this method
};

// The full cache first, then policies by budgets and codecs, as the command line names them; all
// that there are where it names none. The floor comes last. `given`: options with which the full
// cache runs. Errors: PluginError for a name that is neither a policy nor a codec.
absl::StatusOr<std::vector<Method>> MethodsOf(const CommandLine& line, const EngineOptions& given);

// A number of tokens, or a share.
Json BudgetJson(const Budget& budget);

// What an open engine says of the method's cache: names, codecs and the keys of the budget.
Json MethodJson(const Method& method, const Config& config);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_LAB_METHODS_H_
