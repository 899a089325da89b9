// The normalizer of a tokenizer.json: what is done to a text before it is split. Thread: any.
#ifndef NG_CORE_TEXT_PIPELINE_NORMALIZER_H_
#define NG_CORE_TEXT_PIPELINE_NORMALIZER_H_

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/text/pipeline/finder.h"
#include "core/text/sentencepiece/charsmap.h"
#include "core/text/unicode.h"
#include "ng/status.h"

namespace ng {

struct ReplaceStep {
  Finder from;
  std::string to;
};
// Put before a text that is not empty.
struct PrependStep {
  std::string text;
};
// Drops the white space at the ends.
struct StripStep {
  bool left = false;
  bool right = false;
};
// What becomes of each character: it appends to `out`.
using CharMapStep = void (*)(char32_t value, std::string* out);

// SentencePiece's map of characters, as the tokenizers library reads it: by graphemes.
using CharsMapStep = std::shared_ptr<const CharsMap>;

using NormalizerStep =
    std::variant<NormalForm, ReplaceStep, PrependStep, StripStep, CharMapStep, CharsMapStep>;

// The maps of the steps "Lowercase", "StripAccents" and "Nmt", and those that "BertNormalizer" is
// made of.
void LowerChar(char32_t value, std::string* out);
void DropMark(char32_t value, std::string* out);
void DropSpacelessMark(char32_t value, std::string* out);
void CleanAsNmt(char32_t value, std::string* out);
void CleanAsBert(char32_t value, std::string* out);
void SpaceAroundIdeograph(char32_t value, std::string* out);

// A text, and for each of its bytes whether a special token may lie there (EncodeOptions::
// special_at). An empty mask is not followed.
struct MaskedText {
  std::string text;
  std::string mask;
};

// Applies the steps in turn. What a step writes is as allowed as all of what it replaces. Errors:
// UsageError naming the step that makes too much of the text; those of Regex::Find. REQUIRES: valid
// UTF-8.
absl::StatusOr<MaskedText> ApplySteps(const std::vector<NormalizerStep>& steps, MaskedText text,
                                      StepBudget& budget);

}  // namespace ng

#endif  // NG_CORE_TEXT_PIPELINE_NORMALIZER_H_
