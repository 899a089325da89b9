#include "core/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ng {

uint64_t HashOf(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t HashOf(std::string_view bytes, uint64_t seed) {
  return HashOf(std::as_bytes(std::span(bytes)), seed);
}

}  // namespace ng
