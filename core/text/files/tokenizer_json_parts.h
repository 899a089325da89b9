// The normalizer, the pre-tokenizer and the decoder of a tokenizer.json file.
//
// Each step is done as the tokenizers library does it, or refused by name. Errors are
// ModelFileErrors that name the file, the part, the value found and what is allowed.
#ifndef NG_CORE_TEXT_FILES_TOKENIZER_JSON_PARTS_H_
#define NG_CORE_TEXT_FILES_TOKENIZER_JSON_PARTS_H_

#include <string>
#include <vector>

#include "core/text/files/tokenizer_json_file.h"
#include "core/text/pipeline/normalizer.h"
#include "core/text/pipeline/pre_tokenizer.h"
#include "core/text/pipeline/token_decoder.h"
#include "ng/status.h"

namespace ng {

// Each function appends to `unread` the keys of its part that nobody knows.
absl::StatusOr<std::vector<NormalizerStep>> ReadNormalizer(const TokenizerJsonFile& file,
                                                           std::vector<std::string>* unread);
absl::StatusOr<std::vector<PreTokenizerStep>> ReadPreTokenizer(const TokenizerJsonFile& file,
                                                               std::vector<std::string>* unread);
absl::StatusOr<std::vector<DecoderStep>> ReadDecoder(const TokenizerJsonFile& file,
                                                     std::vector<std::string>* unread);

}  // namespace ng

#endif  // NG_CORE_TEXT_FILES_TOKENIZER_JSON_PARTS_H_
