// Reads the families that are made like llama: layers of attention and a feed-forward, RoPE,
// grouped queries. Each is a row (llama_row.h).
//
// Errors of every reader: ModelFileError naming `path`, the key, the value found and what is
// allowed.
#ifndef NG_CORE_MODEL_KEYS_LLAMA_CONFIGS_H_
#define NG_CORE_MODEL_KEYS_LLAMA_CONFIGS_H_

#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/model/keys/llama_row.h"
#include "core/model/spec/model_spec.h"
#include "ng/status.h"

namespace ng {

// Press et al. 2022: 2^(-8 i / n) of the largest power of two of heads; the others lie
// between. [n_heads]
std::vector<float> AlibiSlopes(int n_heads);

absl::StatusOr<ModelSpec> ReadLlamaLike(const JsonFields& config, const std::string& path,
                                        const LlamaRow& row);

// The reader of one row, as Family has it.
template <const LlamaRow& kRow>
absl::StatusOr<ModelSpec> ReadLlamaRow(const JsonFields& config, const std::string& path) {
  return ReadLlamaLike(config, path, kRow);
}

}  // namespace ng

#endif  // NG_CORE_MODEL_KEYS_LLAMA_CONFIGS_H_
