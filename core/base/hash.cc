#include "core/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/str_cat.h"

namespace ng {

uint64_t HashOf(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t HashOf(std::string_view bytes, uint64_t seed) {
  return HashOf(std::as_bytes(std::span(bytes)), seed);
}

std::string HexOf(uint64_t hash) { return absl::StrCat(absl::Hex(hash, absl::kZeroPad16)); }

}  // namespace ng
