#include "plugins/sampler/grammar/option_text.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace ng::grammar {

absl::StatusOr<std::string> ReadOptionFile(std::string_view path) {
  constexpr uintmax_t kMost = uintmax_t{4} << 20;
  const std::string name = OneLine(path.substr(0, 200));
  std::error_code error;
  // Not opened before it is known to be a file: opening a pipe may wait for ever.
  if (!std::filesystem::is_regular_file(path, error)) {
    return UsageError(absl::StrCat("'", name, "' is neither a grammar nor a file that is there"));
  }
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size > kMost) {
    return UsageError(absl::StrCat("'", name, "' has ", size, " bytes, may have ", kMost));
  }
  std::string text(static_cast<size_t>(size), '\0');
  std::ifstream file{std::filesystem::path(path), std::ios::binary};
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) {
    return UsageError(absl::StrCat("'", name, "' cannot be read"));
  }
  return text;
}

}  // namespace ng::grammar
