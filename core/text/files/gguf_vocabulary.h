// The vocabulary that a GGUF file holds under tokenizer.ggml.*, as plain data -> a Tokenizer.
//
// Ids are those of llama.cpp, with the makers' own split patterns (gguf_pre_tokenizers.h).
#ifndef NG_CORE_TEXT_FILES_GGUF_VOCABULARY_H_
#define NG_CORE_TEXT_FILES_GGUF_VOCABULARY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/gguf.h"
#include "ng/status.h"
#include "ng/tokenizer.h"

namespace ng {

// Each field holds the key of the same name. It is empty when the key is absent.
struct GgufVocabulary {
  std::string model;                // "llama": SentencePiece's BPE; "gpt2": byte-level BPE
  std::string pre;                  // gpt2: how a text is split; absent: "default"
  std::vector<std::string> tokens;  // by id
  std::vector<float> scores;        // [tokens]; llama needs them, gpt2 has none
  std::vector<int32_t> token_type;  // [tokens] as PieceType; absent: all are normal
  std::vector<std::string> merges;  // gpt2: "left right", best first
  std::optional<int64_t> bos_token_id;
  std::optional<int64_t> eos_token_id;
  std::optional<int64_t> eot_token_id;   // of a turn
  std::optional<int64_t> eom_token_id;   // of a message
  std::optional<bool> add_bos_token;     // absent: true for llama, else as pre says
  std::optional<bool> add_eos_token;     // absent: false
  std::optional<bool> add_space_prefix;  // llama; absent: true
};

// Whether a GGUF file holds a vocabulary at all.
bool HasVocabulary(const GgufMetadata& metadata);

// Reads the keys. Errors: ModelFileError naming the key that is missing or has another type.
absl::StatusOr<GgufVocabulary> ReadGgufVocabulary(const GgufMetadata& metadata);

// Errors: ModelFileError naming `path`, the key, the value found and what is supported.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(GgufVocabulary vocabulary,
                                                         const std::string& path);

// Does both: makes the tokenizer that a GGUF file holds.
absl::StatusOr<std::unique_ptr<Tokenizer>> ReadGgufTokenizer(const GgufMetadata& metadata);

}  // namespace ng

#endif  // NG_CORE_TEXT_FILES_GGUF_VOCABULARY_H_
