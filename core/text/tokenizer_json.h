// A tokenizer.json file of the Hugging Face tokenizers library: byte-level BPE.
//
// What the file says is either done as the library does it or refused by name. Not looked at:
// "truncation" and "padding", which are settings of a batch and not of the vocabulary.
#ifndef NG_CORE_TEXT_TOKENIZER_JSON_H_
#define NG_CORE_TEXT_TOKENIZER_JSON_H_

#include <memory>
#include <string>
#include <string_view>

#include "core/text/tokenizer.h"
#include "ng/status.h"

namespace ng {

// `path` is what errors name. Errors: ModelFileError (no such file, or a part of it that is not
// supported, with what is).
absl::StatusOr<std::unique_ptr<Tokenizer>> ReadTokenizerJson(std::string_view bytes,
                                                             const std::string& path);

}  // namespace ng

#endif  // NG_CORE_TEXT_TOKENIZER_JSON_H_
