// How transformers uses a SentencePiece model, according to the files beside it: what it puts
// around a text, where it adds a space, and which tokens it adds.
//
// tokenizer.json counts more than tokenizer_config.json, as in transformers 5: its post-processor
// says what begins and ends a text. LlamaTokenizer treats spaces in its own way, whatever
// tokenizer.json says, except for the families that transformers gives another class.
#ifndef NG_CORE_TEXT_FILES_SENTENCEPIECE_USE_H_
#define NG_CORE_TEXT_FILES_SENTENCEPIECE_USE_H_

#include <string>
#include <vector>

#include "core/formats/key_policy.h"
#include "core/text/sentencepiece/sentencepiece_model.h"
#include "core/text/sentencepiece/sentencepiece_tokenizer.h"
#include "ng/status.h"

namespace ng {

// Returns the defaults where `folder` has no such files. Errors: ModelFileError. What the files ask
// for and the model cannot do is refused by name.
absl::StatusOr<SentencePieceUse> ReadSentencePieceUse(const std::string& folder,
                                                      const std::vector<Piece>& pieces,
                                                      const SentencePieceTraits& traits,
                                                      KeyPolicy& policy);

}  // namespace ng

#endif  // NG_CORE_TEXT_FILES_SENTENCEPIECE_USE_H_
