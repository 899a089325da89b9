// Words of keys turned round in blocks of 16 by 16 (flash_turn-inl.h). Included between a level's
// target macros. No include guard.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "plugins/attention/flash/flash_kernel.h"

namespace ng {

struct Avx512WordTurn {
  static NG_INLINE void Words(const std::byte* in, int n, int64_t stride, uint32_t* out) {
    for (int first = 0; first < n; first += 16) {
      const int n_rows = n - first < 16 ? n - first : 16;
      Block(in + first * int64_t{64}, n_rows, stride, out + first);
    }
  }

 private:
  // Columns of neighbours: of two rows, then of four, then of lanes.
  static NG_INLINE void Block(const std::byte* in, int n, int64_t stride, uint32_t* out) {
    __m512i a[16];
    __m512i b[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      a[i] = i < n ? _mm512_loadu_si512(in + i * 64) : _mm512_setzero_si512();
    }
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
      b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
      b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
      a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
      a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
      a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    const __mmask16 columns = static_cast<__mmask16>((1U << n) - 1U);
    const auto store = [&](int row, __m512i words) {
      _mm512_mask_storeu_epi32(out + row * stride, columns, words);
    };
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512i even_low = _mm512_shuffle_i32x4(a[i], a[4 + i], 0x88);
      const __m512i even_high = _mm512_shuffle_i32x4(a[8 + i], a[12 + i], 0x88);
      const __m512i odd_low = _mm512_shuffle_i32x4(a[i], a[4 + i], 0xDD);
      const __m512i odd_high = _mm512_shuffle_i32x4(a[8 + i], a[12 + i], 0xDD);
      store(i, _mm512_shuffle_i32x4(even_low, even_high, 0x88));
      store(4 + i, _mm512_shuffle_i32x4(odd_low, odd_high, 0x88));
      store(8 + i, _mm512_shuffle_i32x4(even_low, even_high, 0xDD));
      store(12 + i, _mm512_shuffle_i32x4(odd_low, odd_high, 0xDD));
    }
  }
};

}  // namespace ng
