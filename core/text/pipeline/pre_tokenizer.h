// The pre-tokenizer of a tokenizer.json: splits a text into the pieces that the model sees one by
// one. Thread: any.
#ifndef NG_CORE_TEXT_PIPELINE_PRE_TOKENIZER_H_
#define NG_CORE_TEXT_PIPELINE_PRE_TOKENIZER_H_

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "absl/functional/function_ref.h"
#include "core/text/bpe/split_pattern.h"
#include "core/text/pipeline/finder.h"
#include "ng/status.h"

namespace ng {

// What becomes of a match, and of the stretches between matches.
enum class SplitBehavior {
  kIsolated,
  kRemoved,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous  // matches that follow each other are one piece
};

struct SplitAt {
  Finder finder;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // the stretches between matches count as the matches
};

// SentencePiece's spaces: each becomes `space`, and one is put in front.
struct ShowSpaces {
  enum class Prepend { kNever, kFirst, kAlways };

  std::string space;
  Prepend prepend = Prepend::kNever;  // kFirst: only where the whole text begins
};

// Puts a space before a piece that does not begin with one.
struct PrefixSpace {};
// The bytes of a piece become characters of the byte alphabet, for the steps that follow.
struct ToByteAlphabet {};

// Each step splits the pieces of the one before.
using PreTokenizerStep =
    std::variant<SplitPattern, SplitAt, ShowSpaces, PrefixSpace, ToByteAlphabet>;

// Gives `take` the pieces of a text, in order, until it returns false; none is empty. With no steps
// the whole text is one piece. After ToByteAlphabet the pieces are given as the bytes that they
// stand for. `begins`: the whole text begins here. Errors: UsageError where the steps make too much
// of the text; those of Regex::Find. REQUIRES: valid UTF-8.
absl::Status SplitText(std::string_view text, bool begins, std::span<const PreTokenizerStep> steps,
                       StepBudget& budget, absl::FunctionRef<bool(std::string_view)> take);

}  // namespace ng

#endif  // NG_CORE_TEXT_PIPELINE_PRE_TOKENIZER_H_
