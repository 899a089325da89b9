// What a status says.
#ifndef NG_TESTS_SUPPORT_MESSAGE_H_
#define NG_TESTS_SUPPORT_MESSAGE_H_

#include <string>

#include "absl/status/status.h"

namespace ng {

inline std::string Message(const absl::Status& status) { return std::string(status.message()); }

}  // namespace ng

#endif  // NG_TESTS_SUPPORT_MESSAGE_H_
