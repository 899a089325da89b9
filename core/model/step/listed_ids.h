// Ids as a cache lists them for later texts that begin alike. With a set of adapters of its own a
// token has other keys and values, so there it has an id of its own.
#ifndef NG_CORE_MODEL_STEP_LISTED_IDS_H_
#define NG_CORE_MODEL_STEP_LISTED_IDS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ng {

// Whether there are ids enough for a set.
constexpr bool CanList(int32_t adapters, int64_t vocab_size) {
  return (adapters + int64_t{1}) * vocab_size <= std::numeric_limits<int32_t>::max();
}

// The ids of a set's tokens; of a set that CanList does not allow they mean nothing. listed:
// [ids.size()]
inline void ListIds(std::span<const int32_t> ids, int32_t adapters, int64_t vocab_size,
                    std::span<int32_t> listed) {
  for (size_t i = 0; i < ids.size(); ++i) {
    listed[i] = static_cast<int32_t>(ids[i] + adapters * vocab_size);
  }
}

}  // namespace ng

#endif  // NG_CORE_MODEL_STEP_LISTED_IDS_H_
