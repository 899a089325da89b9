#include "apps/common/input.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ng/files.h"
#include "ng/process_memory.h"

namespace ng {
namespace {

constexpr int64_t kMaxFile = int64_t{1} << 30;

}  // namespace

absl::Status AsUsage(const absl::Status& status) {
  const absl::string_view message = status.message();
  return UsageError({message.data(), message.size()});
}

absl::StatusOr<std::string> ReadUserFile(const std::string& path, const std::atomic<bool>* stop) {
  constexpr int64_t kShareOfMemory = 8;
  return ReadUserFile(path, stop, std::min(kMaxFile, AvailableMemory() / kShareOfMemory));
}

absl::StatusOr<std::string> ReadUserFile(const std::string& path, const std::atomic<bool>* stop,
                                         int64_t max_bytes) {
  absl::StatusOr<std::string> text = ReadText(path, max_bytes, stop);
  if (text.ok() || text.status().code() == absl::StatusCode::kCancelled) return text;
  return AsUsage(text.status());
}

absl::StatusOr<std::vector<int32_t>> ParseTokenIds(std::string_view text, const std::string& name) {
  std::vector<int32_t> ids;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(text.data(), text.size()), absl::ByAnyChar(" ,\t\r\n"),
                      absl::SkipEmpty())) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), id);
    if (error != std::errc() || end != part.data() + part.size()) {
      return UsageError(absl::StrCat(name, ": '", part, "' is not a token id"));
    }
    ids.push_back(id);
  }
  return ids;
}

}  // namespace ng
