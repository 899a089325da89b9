// JSON that a user gives to a program.
#ifndef NG_APPS_COMMON_JSON_H_
#define NG_APPS_COMMON_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ng/status.h"

namespace ng {

// Parses one JSON value. Errors: those of CheckJson (ng/json.h).
absl::StatusOr<nlohmann::json> ParseUserJson(std::string_view text, const std::string& name,
                                             int max_depth);

// A value as errors show it: its JSON text, in ASCII and cut when long.
std::string ShownJson(const nlohmann::json& value);

}  // namespace ng

#endif  // NG_APPS_COMMON_JSON_H_
