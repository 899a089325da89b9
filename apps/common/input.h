// What a user hands to a program: files of text, token ids. Whatever is wrong with it is a usage
// error.
#ifndef NG_APPS_COMMON_INPUT_H_
#define NG_APPS_COMMON_INPUT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ng/status.h"

namespace ng {

// The same status as a UsageError.
absl::Status AsUsage(const absl::Status& status);

// A whole file of at most 1 GiB. Errors: UsageError.
absl::StatusOr<std::string> ReadUserFile(const std::string& path);

// Ids separated by blanks, line ends or commas; `name` says where they stand. Not checked against a
// vocabulary. Errors: UsageError.
absl::StatusOr<std::vector<int32_t>> ParseTokenIds(std::string_view text, const std::string& name);

}  // namespace ng

#endif  // NG_APPS_COMMON_INPUT_H_
