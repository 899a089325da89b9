// What a tokenizer's own files put around a text.
#ifndef NG_CORE_TEXT_TEXT_ENDS_H_
#define NG_CORE_TEXT_TEXT_ENDS_H_

#include <cstdint>
#include <vector>

namespace ng {

// The tokens that a tokenizer's own files put around a text.
struct TextEnds {
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;

  bool operator==(const TextEnds&) const = default;
};

}  // namespace ng

#endif  // NG_CORE_TEXT_TEXT_ENDS_H_
