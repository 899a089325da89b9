// Patterns that cut a run of digits into threes from its right end. As a regular expression each
// match looks at all digits that follow it, which is quadratic in a long run. Thread: any.
#ifndef NG_CORE_TEXT_PIPELINE_DIGIT_GROUPS_H_
#define NG_CORE_TEXT_PIPELINE_DIGIT_GROUPS_H_

#include <optional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "core/text/regex/regex.h"

namespace ng {

enum class DigitGroups {
  kBeforeBoundary,  // \d{1,3}(?=(?:\d{3})*\b): groups, where the run ends at \b
  kOfNumbers,       // \p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})): groups of all runs
  kBorders,         // (?=(\d{3})+(?!\d)): empty matches, where groups of three begin
};

// The one that has exactly this regular expression; nothing for any other text.
std::optional<DigitGroups> DigitGroupsOf(std::string_view regex);

// Calls `take` with each match, in order, until it returns false. REQUIRES: valid UTF-8.
void ForEachGroup(DigitGroups kind, std::string_view text,
                  absl::FunctionRef<bool(Regex::Match)> take);

}  // namespace ng

#endif  // NG_CORE_TEXT_PIPELINE_DIGIT_GROUPS_H_
