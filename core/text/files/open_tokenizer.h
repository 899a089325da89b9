// Which file is a tokenizer, and of which format.
//
// Thread: any.
#ifndef NG_CORE_TEXT_FILES_OPEN_TOKENIZER_H_
#define NG_CORE_TEXT_FILES_OPEN_TOKENIZER_H_

#include <memory>
#include <optional>
#include <string>

#include "core/formats/key_policy.h"
#include "ng/status.h"
#include "ng/tokenizer.h"

namespace ng {

// As OpenTokenizer in ng/tokenizer.h; `policy` decides about keys that nobody knows.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path,
                                                         KeyPolicy& policy);
// The tokenizer file in a model folder, or nothing. If there are several, the first in this order
// counts: tokenizer.model, tokenizer.json, meta.pkl.
std::optional<std::string> FindTokenizer(const std::string& folder);

}  // namespace ng

#endif  // NG_CORE_TEXT_FILES_OPEN_TOKENIZER_H_
