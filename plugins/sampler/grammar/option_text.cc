#include "plugins/sampler/grammar/option_text.h"

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "ng/files.h"

namespace ng::grammar {

absl::StatusOr<std::string> ReadOptionFile(std::string_view path) {
  constexpr int64_t kMost = int64_t{4} << 20;
  std::error_code error;
  // Not opened before it is known to be a file: opening a pipe may wait for ever.
  if (!std::filesystem::is_regular_file(path, error)) {
    return UsageError(absl::StrCat("'", OneLine(path.substr(0, 200)),
                                   "' is neither a grammar nor a file that is there"));
  }
  absl::StatusOr<std::string> text = ReadText(std::string(path), kMost, nullptr);
  if (text.ok()) return text;
  const absl::string_view message = text.status().message();
  return UsageError({message.data(), message.size()});
}

}  // namespace ng::grammar
