// A tokenizer.json file of the Hugging Face tokenizers library: byte-level BPE.
//
// What the file says is either done as the library does it or refused by name.
#ifndef NG_CORE_TEXT_TOKENIZER_JSON_H_
#define NG_CORE_TEXT_TOKENIZER_JSON_H_

#include <memory>
#include <string>
#include <string_view>

#include "core/formats/key_policy.h"
#include "core/text/byte_bpe_tokenizer.h"
#include "ng/status.h"

namespace ng {

// `path` is what errors name; what nobody reads is for `policy`. Errors: ModelFileError (a part of
// it that is not supported, with what is).
absl::StatusOr<ByteBpeSpec> ReadTokenizerJsonSpec(std::string_view bytes, const std::string& path,
                                                  KeyPolicy& policy);
// The file by itself.
absl::StatusOr<std::unique_ptr<Tokenizer>> ReadTokenizerJson(std::string_view bytes,
                                                             const std::string& path);

}  // namespace ng

#endif  // NG_CORE_TEXT_TOKENIZER_JSON_H_
