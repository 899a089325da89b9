// The hash by which ng recognises bytes: XXH3, 64 bits. It finds accidents and other versions. It
// does not protect from somebody who makes bytes to fit a hash.
#ifndef NG_CORE_BASE_HASH_H_
#define NG_CORE_BASE_HASH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ng {

// To hash several pieces in order, give each the hash of those before it as its seed.
uint64_t HashOf(std::span<const std::byte> bytes, uint64_t seed = 0);
uint64_t HashOf(std::string_view bytes, uint64_t seed = 0);
// A hash as texts show it: 16 hexadecimal digits.
std::string HexOf(uint64_t hash);

}  // namespace ng

#endif  // NG_CORE_BASE_HASH_H_
