// How transformers uses a SentencePiece model, by the files beside it: what it puts around a text,
// where it puts a space before it, which tokens it adds.
//
// tokenizer.json comes before tokenizer_config.json, as in transformers 5: its post-processor says
// what begins and ends a text. LlamaTokenizer has a way of its own with spaces, whatever
// tokenizer.json says, but not for the families that transformers gives another class.
#ifndef NG_CORE_TEXT_SENTENCEPIECE_USE_H_
#define NG_CORE_TEXT_SENTENCEPIECE_USE_H_

#include <optional>
#include <string>
#include <vector>

#include "core/formats/key_policy.h"
#include "core/text/added_tokens.h"
#include "core/text/sentencepiece_model.h"
#include "core/text/tokenizer_json_file.h"
#include "ng/status.h"

namespace ng {

// Where a space is put. A stretch is a text, or what of it lies between special tokens.
enum class SpacePrefix {
  kModels,  // before every stretch, if the model's own normaliser does it
  kEach,    // before every stretch that does not begin with one
  kFirst,   // the same, but not after a special token
  kNever,
};

struct SentencePieceUse {
  SpacePrefix space_prefix = SpacePrefix::kModels;
  std::optional<TextEnds> ends;  // nothing: no file says what begins and ends a text
  // What is found in a text as it stands, the model's control pieces too; ids may be beyond the
  // model's pieces. Empty: nothing is.
  std::vector<AddedToken> added;
};

// Nothing but defaults where `folder` has no such files. Errors: ModelFileError; what the files ask
// for and the model cannot do is refused by name.
absl::StatusOr<SentencePieceUse> ReadSentencePieceUse(const std::string& folder,
                                                      const std::vector<Piece>& pieces,
                                                      const SentencePieceTraits& traits,
                                                      KeyPolicy& policy);

}  // namespace ng

#endif  // NG_CORE_TEXT_SENTENCEPIECE_USE_H_
