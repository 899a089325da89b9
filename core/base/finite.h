// Whether numbers are finite. NaN and infinity are the floats whose exponent has all bits set.
#ifndef NG_CORE_BASE_FINITE_H_
#define NG_CORE_BASE_FINITE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ng {

// Whether no number in `data` is NaN or infinite. Bits: an unsigned integer as wide as a number;
// kExponent: the bits of its exponent; data: whole numbers, at any address.
template <typename Bits, Bits kExponent>
bool AllFinite(std::span<const std::byte> data) {
  Bits found = 0;  // no early exit: the loop stays in vector lanes
  const size_t n = data.size() / sizeof(Bits);
  for (size_t i = 0; i < n; ++i) {
    Bits bits = 0;
    std::memcpy(&bits, data.data() + i * sizeof(bits), sizeof(bits));
    found |= (bits & kExponent) == kExponent ? 1U : 0U;
  }
  return found == 0;
}

inline bool AllFinite(std::span<const float> values) {
  return AllFinite<uint32_t, 0x7F800000>(std::as_bytes(values));
}

}  // namespace ng

#endif  // NG_CORE_BASE_FINITE_H_
