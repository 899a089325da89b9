// What a user hands to a program: files of text, token ids. Whatever is wrong with it is a usage
// error.
#ifndef NG_APPS_COMMON_INPUT_H_
#define NG_APPS_COMMON_INPUT_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ng/status.h"

namespace ng {

// The same status as a UsageError.
absl::Status AsUsage(const absl::Status& status);

// A whole file, or what a pipe has up to its end, of at most 1 GiB and an eighth of the memory that
// there is, or of at most `max_bytes`. Waits for a pipe's writers until `stop` is set. Errors:
// UsageError; InterruptedError.
absl::StatusOr<std::string> ReadUserFile(const std::string& path, const std::atomic<bool>* stop);
absl::StatusOr<std::string> ReadUserFile(const std::string& path, const std::atomic<bool>* stop,
                                         int64_t max_bytes);

// Ids separated by blanks, line ends or commas; `name` says where they stand. Not checked against a
// vocabulary. Errors: UsageError.
absl::StatusOr<std::vector<int32_t>> ParseTokenIds(std::string_view text, const std::string& name);

}  // namespace ng

#endif  // NG_APPS_COMMON_INPUT_H_
