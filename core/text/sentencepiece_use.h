// How transformers uses a SentencePiece model, according to the files beside it: what it puts
// around a text, where it adds a space, and which tokens it adds.
//
// tokenizer.json counts more than tokenizer_config.json, as in transformers 5: its post-processor
// says what begins and ends a text. LlamaTokenizer treats spaces in its own way, whatever
// tokenizer.json says, except for the families that transformers gives another class.
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

// Where a space is added. A stretch is a whole text, or the part of it between special tokens.
enum class SpacePrefix {
  kModels,  // before every stretch, if the model's own normaliser does it
  kEach,    // before every stretch that does not begin with a space
  kFirst,   // the same, but not after a special token
  kNever,
};

struct SentencePieceUse {
  SpacePrefix space_prefix = SpacePrefix::kModels;
  std::optional<TextEnds> ends;  // nothing: no file says what begins and ends a text
  // The tokens that are found in a text as written, the model's control pieces too. Ids may be
  // beyond the model's pieces.
  std::vector<AddedToken> added;
};

// Returns the defaults where `folder` has no such files. Errors: ModelFileError. What the files ask
// for and the model cannot do is refused by name.
absl::StatusOr<SentencePieceUse> ReadSentencePieceUse(const std::string& folder,
                                                      const std::vector<Piece>& pieces,
                                                      const SentencePieceTraits& traits,
                                                      KeyPolicy& policy);

}  // namespace ng

#endif  // NG_CORE_TEXT_SENTENCEPIECE_USE_H_
