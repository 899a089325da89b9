// The hash by which ng knows bytes again: XXH3, 64 bits. It tells accidents and other versions
// apart; it is no proof against somebody who makes bytes to fit a hash.
#ifndef NG_CORE_FORMATS_HASH_H_
#define NG_CORE_FORMATS_HASH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ng {

// Of several pieces in their order: each with the hash of those before as its seed.
uint64_t HashOf(std::span<const std::byte> bytes, uint64_t seed = 0);
uint64_t HashOf(std::string_view bytes, uint64_t seed = 0);

}  // namespace ng

#endif  // NG_CORE_FORMATS_HASH_H_
