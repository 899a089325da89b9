// Codes that stand for floats, of sixteen columns side by side, widened on each ISA level: to
// dot16.h what floats are to integers. All levels give the same values, those of the tables in
// weight_type.h.
//
// A line is 64 bytes of a packed matrix: 4 inputs of 8 bits, or 8 of 4 bits (packed_matrix.h).
// Nibble<i> gives input i of such a line by a table [16]; Bytes give the inputs of a line in E4M3;
// Scales sixteen bytes in E4M3. Both are those of kE4m3Values. An f16 has their bits where they
// are moved down by one: the sign stays, and one bit of the exponent is new.
#ifndef NG_CORE_KERNELS_CODES16_H_
#define NG_CORE_KERNELS_CODES16_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "core/kernels/weight_type.h"
#include "ng/vec16.h"

namespace ng {

// Where input i of 8 is in the word of a column: the lower halves of its bytes come first.
constexpr int NibbleShift(int i) { return i % 4 * 8 + i / 4 * 4; }

}  // namespace ng

namespace ng::scalar {

struct Codes16 {
  using V = Vec16;
  // Not unrolled: no instruction looks up several.
  template <class Code>
  static NG_INLINE V LookUp(const float* table, Code code) {
    float lanes[16];
#pragma GCC unroll 1
    for (int column = 0; column < 16; ++column) lanes[column] = table[code(column)];
    return V::Load(lanes);
  }
  template <int kInput>
  static NG_INLINE V Nibble(const float* table, const std::byte* line) {
    return LookUp(table, [line](int column) {
      return std::to_integer<int>(line[column * 4 + kInput % 4]) >> (kInput / 4 * 4) & 15;
    });
  }
  struct Bytes {
    const std::byte* line;
    template <int kInput>
    NG_INLINE V Input() const {
      return LookUp(kE4m3Values.data(), [this](int column) {
        const int pair = column / 4 * 16 + kInput / 2 * 8 + column % 4 * 2;
        return std::to_integer<int>(line[pair + kInput % 2]);
      });
    }
  };
  static NG_INLINE V Scales(const std::byte* p) {
    return LookUp(kE4m3Values.data(), [p](int column) { return std::to_integer<int>(p[column]); });
  }
};

}  // namespace ng::scalar

NG_BEGIN_TARGET_AVX2
namespace ng::avx2 {

struct Codes16 {
  using V = Vec16;
  static NG_INLINE __m256 Nibbles8(const float* table, __m256i words, int shift) {
    const __m256i index = _mm256_srli_epi32(words, shift);
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), index);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(words, 28 - shift)));
  }
  template <int kInput>
  static NG_INLINE V Nibble(const float* table, const std::byte* line) {
    const auto* words = reinterpret_cast<const __m256i*>(line);
    constexpr int kShift = NibbleShift(kInput);
    return {Nibbles8(table, _mm256_loadu_si256(words), kShift),
            Nibbles8(table, _mm256_loadu_si256(words + 1), kShift)};
  }
  // The upper bytes of words, as f16.
  static NG_INLINE __m256i Halves(__m256i words) {
    return _mm256_and_si256(_mm256_srai_epi16(words, 1),
                            _mm256_set1_epi16(static_cast<int16_t>(0xBF80)));
  }
  struct Bytes {
    __m256i even[2];  // of 8 columns: inputs 0 and 2, as f16
    __m256i odd[2];
    explicit NG_INLINE Bytes(const std::byte* line) {
      for (int i = 0; i < 2; ++i) {
        const auto* from = reinterpret_cast<const __m256i*>(line) + i;
        const __m256i pairs = _mm256_permute4x64_epi64(_mm256_loadu_si256(from), 0xD8);
        even[i] = Halves(_mm256_slli_epi16(pairs, 8));
        odd[i] = Halves(pairs);
      }
    }
    template <int kPair>
    static NG_INLINE __m256 Widen(__m256i halves) {
      return _mm256_cvtph_ps(kPair == 0 ? _mm256_castsi256_si128(halves)
                                        : _mm256_extracti128_si256(halves, 1));
    }
    template <int kInput>
    NG_INLINE V Input() const {
      constexpr int kPair = kInput / 2;
      if constexpr (kInput % 2 == 0) return {Widen<kPair>(even[0]), Widen<kPair>(even[1])};
      return {Widen<kPair>(odd[0]), Widen<kPair>(odd[1])};
    }
  };
  static NG_INLINE V Scales(const std::byte* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m256i halves = Halves(_mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8));
    return {Bytes::Widen<0>(halves), Bytes::Widen<1>(halves)};
  }
};

}  // namespace ng::avx2
NG_END_TARGET

NG_BEGIN_TARGET_AVX512
namespace ng::avx512 {

struct Codes16 {
  using V = Vec16;
  template <int kInput>
  static NG_INLINE V Nibble(const float* table, const std::byte* line) {
    const __m512i words = _mm512_loadu_si512(line);
    return {_mm512_permutexvar_ps(_mm512_srli_epi32(words, NibbleShift(kInput)),
                                  _mm512_loadu_ps(table))};
  }
  // As for AVX2.
  static NG_INLINE __m512i Halves(__m512i words) {
    return _mm512_and_si512(_mm512_srai_epi16(words, 1),
                            _mm512_set1_epi16(static_cast<int16_t>(0xBF80)));
  }
  static NG_INLINE V Widen(__m256i halves) {
    return {_mm512_maskz_cvtph_ps(static_cast<__mmask16>(-1), halves)};
  }
  struct Bytes {
    __m512i even;  // of 16 columns: inputs 0 and 2, as f16
    __m512i odd;
    explicit NG_INLINE Bytes(const std::byte* line) {
      const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
      const __m512i pairs = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(line));
      even = Halves(_mm512_slli_epi16(pairs, 8));
      odd = Halves(pairs);
    }
    template <int kInput>
    NG_INLINE V Input() const {
      const __m512i halves = kInput % 2 == 0 ? even : odd;
      if constexpr (kInput / 2 == 0) return Widen(_mm512_castsi512_si256(halves));
      return Widen(_mm512_extracti64x4_epi64(halves, 1));
    }
  };
  static NG_INLINE V Scales(const std::byte* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m256i words = _mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 7);
    const __m256i sign = _mm256_slli_epi16(words, 1);
    return Widen(
        _mm256_or_si256(_mm256_and_si256(words, _mm256_set1_epi16(0x3F80)),
                        _mm256_and_si256(sign, _mm256_set1_epi16(static_cast<int16_t>(0x8000)))));
  }
};

}  // namespace ng::avx512
NG_END_TARGET

NG_BEGIN_TARGET_AVX512_BF16
namespace ng::avx512_bf16 {

// The pairs of a line as bf16, [16][2] each. The lower byte of a normal number is its code moved
// up by 4, the upper byte a number of its upper half: of the exponent's bits, with the sign apart,
// 3 choose it. Where these are 0, a table has both bytes for each lower half.
struct Codes16 {
  using V = avx512::Vec16;
  static NG_INLINE __m512i Table(__m128i bytes) { return _mm512_broadcast_i32x4(bytes); }
  static NG_INLINE void Pairs(const std::byte* line, __m512i* first, __m512i* second) {
    const __m512i codes = _mm512_loadu_si512(line);
    const __m512i lower = _mm512_and_si512(codes, _mm512_set1_epi8(15));
    const __m512i upper = _mm512_and_si512(_mm512_srli_epi16(codes, 4), _mm512_set1_epi8(7));
    const __mmask64 small = _mm512_testn_epi8_mask(codes, _mm512_set1_epi8(0x70));
    // Bytes of kE4m3Values as bf16: m / 2^17, for m = 0 to 15.
    const __m512i small_lower = Table(
        _mm_setr_epi8(0, 0, -128, -64, 0, 32, 64, 96, -128, -112, -96, -80, -64, -48, -32, -16));
    const __m512i small_upper =
        Table(_mm_setr_epi8(0, 0x37, 0x37, 0x37, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38,
                            0x38, 0x38, 0x38, 0x38));
    const __m512i uppers = Table(
        _mm_setr_epi8(0x38, 0x39, 0x3A, 0x3B, 0x3C, 0x3D, 0x3E, 0x3F, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m512i moved = _mm512_slli_epi16(lower, 4);
    const __m512i low = _mm512_mask_shuffle_epi8(moved, small, small_lower, lower);
    const __m512i normal = _mm512_shuffle_epi8(uppers, upper);
    const __m512i magnitude = _mm512_mask_shuffle_epi8(normal, small, small_upper, lower);
    constexpr int kOrOfAnd = 0xF8;  // a | (b & c)
    const __m512i high =
        _mm512_ternarylogic_epi32(magnitude, codes, _mm512_set1_epi8(-128), kOrOfAnd);
    *first = _mm512_unpacklo_epi8(low, high);
    *second = _mm512_unpackhi_epi8(low, high);
  }
};

}  // namespace ng::avx512_bf16
NG_END_TARGET

#endif  // NG_CORE_KERNELS_CODES16_H_
