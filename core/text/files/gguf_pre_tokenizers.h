// How a text is split by the name that a GGUF file has under tokenizer.ggml.pre.
#ifndef NG_CORE_TEXT_FILES_GGUF_PRE_TOKENIZERS_H_
#define NG_CORE_TEXT_FILES_GGUF_PRE_TOKENIZERS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/pipeline/pre_tokenizer.h"

namespace ng {

struct GgufPreTokenizer {
  std::vector<PreTokenizerStep> split;
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say it
};

// Nothing for a name that is not known. The names are llama.cpp's. Where llama.cpp has changed a
// pattern to one that its own engine can run, the steps are those of the models' makers.
std::optional<GgufPreTokenizer> GgufPreTokenizerOf(std::string_view name);
// All of the names, for errors.
std::string GgufPreTokenizerNames();

}  // namespace ng

#endif  // NG_CORE_TEXT_FILES_GGUF_PRE_TOKENIZERS_H_
