#include "core/text/text_checks.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "ng/utf8.h"

namespace ng {

absl::Status CheckText(std::string_view text) {
  if (const std::optional<size_t> invalid = FindInvalidUtf8(text)) {
    return UsageError(absl::StrCat("the text is not valid UTF-8 at byte ", *invalid));
  }
  return absl::OkStatus();
}

absl::Status CheckIds(std::span<const int32_t> ids, int64_t vocab_size, const std::string& path) {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocab_size) continue;
    return UsageError(absl::StrCat("id ", id, " is not in the vocabulary, must be in [0, ",
                                   vocab_size - 1, "] for ", path));
  }
  return absl::OkStatus();
}

}  // namespace ng
