// Moves words of 32 bits from rows, as files hold them, to columns, as kernels read them.
#ifndef NG_CORE_KERNELS_WORDS_H_
#define NG_CORE_KERNELS_WORDS_H_

#include <emmintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ng/vec16.h"

namespace ng {

// One word of each of four columns.
using FourWords = uint32_t __attribute__((vector_size(16)));

// Word i of each of four rows, for i = 0 to 3.
NG_INLINE std::array<FourWords, 4> Transposed(const std::array<FourWords, 4>& rows) {
  const FourWords a = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
  const FourWords b = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
  const FourWords c = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
  const FourWords d = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
  return {__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
          __builtin_shufflevector(c, d, 0, 1, 4, 5), __builtin_shufflevector(c, d, 2, 3, 6, 7)};
}

// Writes without going through the caches. So data that is not read again soon pushes nothing out
// of them, and no line is fetched only to be overwritten. Other threads see the data after a fence.
// Both addresses are 16-byte aligned.
inline void StreamOut(std::span<const std::byte> bytes, std::byte* to) {
#pragma GCC unroll 8
  for (size_t i = 0; i < bytes.size(); i += sizeof(__m128i)) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_load_si128(reinterpret_cast<const __m128i*>(bytes.data() + i)));
  }
}

}  // namespace ng

#endif  // NG_CORE_KERNELS_WORDS_H_
