// What a normalizer replaces and a pre-tokenizer splits at: a literal, a pattern, groups of digits,
// spaces at the end of a line, or a class of characters. Thread: any.
#ifndef NG_CORE_TEXT_PIPELINE_FINDER_H_
#define NG_CORE_TEXT_PIPELINE_FINDER_H_

#include <string>
#include <string_view>
#include <variant>

#include "absl/functional/function_ref.h"
#include "core/text/pipeline/digit_groups.h"
#include "core/text/pipeline/step_budget.h"
#include "core/text/regex/regex.h"
#include "ng/status.h"

namespace ng {

using CharTest = bool (*)(char32_t);  // each character of the class is a match by itself

// The pattern \s+$. As a regular expression it looks at all spaces that follow each space.
struct SpacesOfLineEnds {};

// REQUIRES: a literal is not empty.
using Finder = std::variant<std::string, Regex, DigitGroups, SpacesOfLineEnds, CharTest>;

// What finds the matches of a pattern. Errors: those of Regex::Compile.
absl::StatusOr<Finder> FinderOf(std::string_view regex);

// Calls `take` with each match, from left to right, until it returns false. A match may be empty,
// but not where the one before it ends. Errors: those of Regex::Find. REQUIRES: valid UTF-8.
absl::Status ForEachMatch(const Finder& finder, std::string_view text, StepBudget& budget,
                          absl::FunctionRef<bool(Regex::Match)> take);

}  // namespace ng

#endif  // NG_CORE_TEXT_PIPELINE_FINDER_H_
