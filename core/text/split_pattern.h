// The patterns by which byte-level BPE splits a text into pieces before it merges.
//
// Written as scanners and not as regular expressions: one pass over the text, no recursion, no
// backtracking over more than one run of spaces. Thread: any.
#ifndef NG_CORE_TEXT_SPLIT_PATTERN_H_
#define NG_CORE_TEXT_SPLIT_PATTERN_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace ng {

// One way to split. A tokenizer applies several in turn, each to the pieces of the one before.
enum class SplitStep {
  kGpt2,
  kLlama3,
  kQwen2,
  kEachNumber,   // each \p{N} by itself
  kNumbers,      // \p{N}+
  kThreeDigits,  // [0-9]{3}
  kPunctuation,  // [\p{P}$+<=>^~|]+
};

// The step whose regular expression this is, character by character; nothing for any other.
std::optional<SplitStep> SplitStepOf(std::string_view regex);
// The names of those that are known, for errors.
std::string SplitPatternNames();

// Hands out the pieces of a text in order until `take` says that it wants no more, and whether it
// took all. Together they are the text, and they borrow from it. With no steps the text is one
// piece. Keeps nothing, however long the text. REQUIRES: valid UTF-8.
bool SplitText(std::string_view text, std::span<const SplitStep> steps,
               absl::FunctionRef<bool(std::string_view)> take);

}  // namespace ng

#endif  // NG_CORE_TEXT_SPLIT_PATTERN_H_
