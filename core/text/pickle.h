// The part of Python's pickle format that is plain data: integers, short strings, dictionaries.
//
// A pickle is a program that builds objects. Only the instructions that build these three kinds are
// followed. An instruction that names, calls or builds anything else is refused.
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
// In the order of the file. A key may occur again; then the later one counts.
using PickleDict = std::vector<PickleEntry>;

struct PickleValue {
  std::variant<int64_t, std::string, PickleDict> value;
  int depth = 0;  // how deep dictionaries are nested
};

struct PickleEntry {
  PickleValue key;
  PickleValue value;
};

// Reads protocols 2 to 5. Errors: ModelFileError naming `path`: it is not such a file, or has an
// instruction that is not followed, with its offset.
absl::StatusOr<PickleValue> ReadPickle(std::string_view bytes, const std::string& path);

}  // namespace ng

#endif  // NG_CORE_TEXT_PICKLE_H_
