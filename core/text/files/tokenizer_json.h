// A tokenizer.json file of the Hugging Face tokenizers library: BPE or Unigram.
//
// Everything that the file says is either done as the library does it, or refused by name.
#ifndef NG_CORE_TEXT_FILES_TOKENIZER_JSON_H_
#define NG_CORE_TEXT_FILES_TOKENIZER_JSON_H_

#include <memory>
#include <string>
#include <string_view>

#include "core/formats/key_policy.h"
#include "core/text/pipeline/pipeline_tokenizer.h"
#include "ng/status.h"

namespace ng {

// `policy` decides about keys that nobody reads. Errors: ModelFileError naming `path`, the part
// that is not supported and what is supported.
absl::StatusOr<PipelineSpec> ReadTokenizerJsonSpec(std::string_view bytes, const std::string& path,
                                                   KeyPolicy& policy);
// Makes a tokenizer from the file alone, without the files beside it.
absl::StatusOr<std::unique_ptr<Tokenizer>> ReadTokenizerJson(std::string_view bytes,
                                                             const std::string& path);

}  // namespace ng

#endif  // NG_CORE_TEXT_FILES_TOKENIZER_JSON_H_
