// Which file is a tokenizer, and of which format.
//
// Thread: any.
#ifndef NG_CORE_TEXT_FILES_OPEN_TOKENIZER_H_
#define NG_CORE_TEXT_FILES_OPEN_TOKENIZER_H_

#include <memory>
#include <optional>
#include <string>

#include "core/formats/key_policy.h"
#include "core/text/tokenizer.h"
#include "ng/status.h"

namespace ng {

// Opens a SentencePiece .model, a tokenizer.json or nanoGPT's meta.pkl by its extension (any other
// extension means a .model), or the vocabulary of a GGUF file, or finds one of these in a model
// folder. It follows what the files beside the tokenizer say; `policy` decides about keys that
// nobody knows. Errors: ModelFileError naming the file and what is wrong with it.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path,
                                                         KeyPolicy& policy);
// The same with a policy that accepts all keys and says nothing.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path);
// The tokenizer file in a model folder, or nothing. If there are several, the first in this order
// counts: tokenizer.model, tokenizer.json, meta.pkl.
std::optional<std::string> FindTokenizer(const std::string& folder);

}  // namespace ng

#endif  // NG_CORE_TEXT_FILES_OPEN_TOKENIZER_H_
