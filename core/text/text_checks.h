// What every tokenizer checks about its input.
#ifndef NG_CORE_TEXT_TEXT_CHECKS_H_
#define NG_CORE_TEXT_TEXT_CHECKS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ng/status.h"

namespace ng {

// Errors: UsageError when the text is not valid UTF-8.
absl::Status CheckText(std::string_view text);
// Errors: UsageError for an id outside [0, vocab_size). `path` names the tokenizer.
absl::Status CheckIds(std::span<const int32_t> ids, int64_t vocab_size, const std::string& path);

}  // namespace ng

#endif  // NG_CORE_TEXT_TEXT_CHECKS_H_
