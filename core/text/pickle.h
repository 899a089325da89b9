// Python's pickle format, as far as plain data goes: integers, short strings, dictionaries.
//
// Pickle is a program that builds objects. Only the instructions that build these three are
// followed; one that would name, call or build anything else is refused.
#ifndef NG_CORE_TEXT_PICKLE_H_
#define NG_CORE_TEXT_PICKLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ng/status.h"

namespace ng {

struct PickleEntry;
// In the order of the file. A key may be there again: the later one counts.
using PickleDict = std::vector<PickleEntry>;

struct PickleValue {
  std::variant<int64_t, std::string, PickleDict> value;
  int depth = 0;  // of dictionaries in dictionaries
};

struct PickleEntry {
  PickleValue key;
  PickleValue value;
};

// Protocols 2 to 5. `path` is what errors name. Errors: ModelFileError (no such file, or an
// instruction that is not followed, with its offset).
absl::StatusOr<PickleValue> ReadPickle(std::string_view bytes, const std::string& path);

}  // namespace ng

#endif  // NG_CORE_TEXT_PICKLE_H_
