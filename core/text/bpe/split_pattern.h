// The patterns by which byte-level BPE splits a text into pieces before it merges.
//
// They are scanners and not regular expressions: one pass over the text, no recursion, and no
// backtracking over more than one run of spaces. Thread: any.
#ifndef NG_CORE_TEXT_BPE_SPLIT_PATTERN_H_
#define NG_CORE_TEXT_BPE_SPLIT_PATTERN_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace ng {

// One way to split. A tokenizer applies several in turn; each splits the pieces of the one before.
enum class SplitStep {
  kGpt2,
  kLlama3,
  kQwen2,
  kEachNumber,   // each \p{N} by itself
  kNumbers,      // \p{N}+
  kThreeDigits,  // [0-9]{3}
  kPunctuation,  // [\p{P}$+<=>^~|]+
};

// The step that has exactly this regular expression; nothing for any other text.
std::optional<SplitStep> SplitStepOf(std::string_view regex);
// The names of the known patterns, for errors.
std::string SplitPatternNames();

// Gives `take` the pieces of a text, in order, until it returns false. Returns whether it took all.
// Together the pieces are the text; they borrow from it. With no steps the whole text is one piece.
// Takes no memory, however long the text is. REQUIRES: valid UTF-8.
bool SplitText(std::string_view text, std::span<const SplitStep> steps,
               absl::FunctionRef<bool(std::string_view)> take);

}  // namespace ng

#endif  // NG_CORE_TEXT_BPE_SPLIT_PATTERN_H_
