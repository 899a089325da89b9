// The decoder of a tokenizer.json: tokens to text. Thread: any.
#ifndef NG_CORE_TEXT_PIPELINE_TOKEN_DECODER_H_
#define NG_CORE_TEXT_PIPELINE_TOKEN_DECODER_H_

#include <string>
#include <variant>
#include <vector>

#include "core/text/pipeline/finder.h"
#include "ng/status.h"

namespace ng {

// Tokens in the byte alphabet become bytes; the tokens become one text.
struct BytesOfAlphabet {};
// Tokens such as <0x0A> become bytes; those in a row become characters, if they are UTF-8.
struct BytesOfNames {};
// The tokens become one text.
struct Fuse {};
struct ReplaceInToken {
  Finder from;
  std::string to;
};
// Drops up to this many of a character at the ends of each token.
struct StripToken {
  std::string character;
  int64_t start = 0;
  int64_t stop = 0;
};
// Spaces that are shown become spaces again; those of the first token are dropped if `drops_first`.
struct HideSpaces {
  std::string space;
  bool drops_first = false;
};
// The mark at the end of a word becomes a space, and nothing at the end of the text.
struct HideWordEnds {
  std::string mark;
};

// Each token but the first gets a space before it: what comes of a file without a decoder.
struct SpacesBetween {};

using DecoderStep = std::variant<BytesOfAlphabet, BytesOfNames, Fuse, ReplaceInToken, StripToken,
                                 HideSpaces, HideWordEnds, SpacesBetween>;

// The text of tokens; invalid UTF-8 is replaced as the tokenizers library does. Errors: UsageError
// naming the step that makes too much of them; those of Regex::Find.
absl::StatusOr<std::string> DecodeTokens(const std::vector<DecoderStep>& steps,
                                         std::vector<std::string> tokens, StepBudget& budget);
// The bytes that a token adds within a text.
absl::StatusOr<std::string> BytesWithin(const std::vector<DecoderStep>& steps, std::string token,
                                        StepBudget& budget);

}  // namespace ng

#endif  // NG_CORE_TEXT_PIPELINE_TOKEN_DECODER_H_
