// What a user gives to a program: files of text, token ids. Anything wrong with it is a usage
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

// The same error as a UsageError.
absl::Status AsUsage(const absl::Status& status);

// Reads a whole file, or a pipe up to its end. It may have at most 1 GiB and at most an eighth of
// the machine's memory, or at most `max_bytes`. Waits for a pipe's writers until `stop` is set.
// Errors: UsageError; InterruptedError.
absl::StatusOr<std::string> ReadUserFile(const std::string& path, const std::atomic<bool>* stop);
absl::StatusOr<std::string> ReadUserFile(const std::string& path, const std::atomic<bool>* stop,
                                         int64_t max_bytes);

// Reads ids that are separated by blanks, line ends or commas. Errors say that they are in `name`.
// The ids are not checked against a vocabulary. Errors: UsageError.
absl::StatusOr<std::vector<int32_t>> ParseTokenIds(std::string_view text, const std::string& name);

}  // namespace ng

#endif  // NG_APPS_COMMON_INPUT_H_
