// A check of JSON text that nobody has checked, before a JSON library reads it.
#ifndef NG_JSON_H_
#define NG_JSON_H_

#include <string>
#include <string_view>

#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

// Checks that `text` is one JSON value as the standard has it, and more strictly: it is nested at
// most `max_depth` levels deep (a value outside any array or object has depth 0), no object has a
// key twice, and there is no byte order mark and no NUL byte. Errors: ModelFileError that begins
// with `name`.
absl::Status CheckJson(std::string_view text, const std::string& name, int max_depth);

// Where the value is at which CheckJson stopped: "messages[1].content". Empty where that is no
// value in an object or a list, or where the error is another one.
std::string JsonErrorPlace(const absl::Status& status);

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_JSON_H_
