// Sixteen pairs of 16-bit integers, and sums of their products in 32 bits, on each ISA level: what
// int8 and int4 are multiplied in. Sums are exact as long as they fit, so that neither the order
// nor the level shows. The scalar types are the twins of the others (cf. ng/vec16.h).
#ifndef NG_PLUGINS_ATTENTION_FLASH_FLASH_PAIRS_H_
#define NG_PLUGINS_ATTENTION_FLASH_FLASH_PAIRS_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ng/vec16.h"

namespace ng::scalar {

// SSE2, which every x86-64 has.
struct IntPairs {
  __m128i q[4];

  static NG_INLINE IntPairs Load(const void* p) {
    IntPairs r;
    std::memcpy(r.q, p, sizeof(r.q));
    return r;
  }
  // The first n pairs, zeros beyond; reads nothing beyond.
  static NG_INLINE IntPairs LoadFirst(const void* p, int n) {
    int32_t pairs[16] = {};
    std::memcpy(pairs, p, static_cast<size_t>(n) * 4);
    return Load(pairs);
  }
  NG_INLINE void Store(void* p) const { std::memcpy(p, q, sizeof(q)); }
  // One pair in all places.
  static NG_INLINE IntPairs Set(const int16_t* pair) {
    int bits;
    std::memcpy(&bits, pair, sizeof(bits));
    const __m128i all = _mm_set1_epi32(bits);
    return {{all, all, all, all}};
  }
  // Bits [kLow, kLow + kBits) of each 16 as a signed number.
  template <int kLow, int kBits>
  static NG_INLINE IntPairs Field(IntPairs a) {
    for (__m128i& q : a.q) {
      if constexpr (kLow + kBits < 16) q = _mm_slli_epi16(q, 16 - kBits - kLow);
      q = _mm_srai_epi16(q, 16 - kBits);
    }
    return a;
  }
  // To the nearest whole number, ties to even. What is not a number, or too large, becomes any.
  static NG_INLINE void Narrow(Vec16 x, int16_t* to) {
    for (int i = 0; i < 2; ++i) {
      const __m128i low = _mm_cvtps_epi32(x.q[2 * i]);
      const __m128i high = _mm_cvtps_epi32(x.q[2 * i + 1]);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to) + i, _mm_packs_epi32(low, high));
    }
  }
};

struct PairSums {
  __m128i q[4];  // a lane that no query may see can overflow

  static NG_INLINE PairSums Zero() {
    const __m128i zero = _mm_setzero_si128();
    return {{zero, zero, zero, zero}};
  }
  // sums + a.first * b.first + a.second * b.second
  static NG_INLINE PairSums MulAdd(IntPairs a, IntPairs b, PairSums sums) {
    for (int i = 0; i < 4; ++i) {
      sums.q[i] = _mm_add_epi32(sums.q[i], _mm_madd_epi16(a.q[i], b.q[i]));
    }
    return sums;
  }
  NG_INLINE Vec16 ToFloat() const {
    Vec16 r;
    for (int i = 0; i < 4; ++i) r.q[i] = _mm_cvtepi32_ps(q[i]);
    return r;
  }
};

}  // namespace ng::scalar

NG_BEGIN_TARGET_AVX2
namespace ng::avx2 {

struct IntPairs {
  __m256i lo;
  __m256i hi;

  static NG_INLINE IntPairs Load(const void* p) {
    const auto* from = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)};
  }
  static NG_INLINE IntPairs LoadFirst(const void* p, int n) {
    const auto* from = static_cast<const int*>(p);
    return {_mm256_maskload_epi32(from, Vec16::First(n)),
            _mm256_maskload_epi32(from + 8, Vec16::First(n - 8))};
  }
  NG_INLINE void Store(void* p) const {
    _mm256_storeu_si256(static_cast<__m256i*>(p), lo);
    _mm256_storeu_si256(static_cast<__m256i*>(p) + 1, hi);
  }
  static NG_INLINE IntPairs Set(const int16_t* pair) {
    int bits;
    std::memcpy(&bits, pair, sizeof(bits));
    return {_mm256_set1_epi32(bits), _mm256_set1_epi32(bits)};
  }
  template <int kLow, int kBits>
  static NG_INLINE __m256i Field8(__m256i a) {
    if constexpr (kLow + kBits < 16) a = _mm256_slli_epi16(a, 16 - kBits - kLow);
    return _mm256_srai_epi16(a, 16 - kBits);
  }
  template <int kLow, int kBits>
  static NG_INLINE IntPairs Field(IntPairs a) {
    return {Field8<kLow, kBits>(a.lo), Field8<kLow, kBits>(a.hi)};
  }
  static NG_INLINE void Narrow(Vec16 x, int16_t* to) {
    const __m256i packed = _mm256_packs_epi32(_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(packed, 0xD8));
  }
};

struct PairSums {
  __m256i lo;
  __m256i hi;

  static NG_INLINE PairSums Zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static NG_INLINE PairSums MulAdd(IntPairs a, IntPairs b, PairSums sums) {
    return {_mm256_add_epi32(sums.lo, _mm256_madd_epi16(a.lo, b.lo)),
            _mm256_add_epi32(sums.hi, _mm256_madd_epi16(a.hi, b.hi))};
  }
  NG_INLINE Vec16 ToFloat() const { return {_mm256_cvtepi32_ps(lo), _mm256_cvtepi32_ps(hi)}; }
};

}  // namespace ng::avx2
NG_END_TARGET

NG_BEGIN_TARGET_AVX_VNNI
namespace ng::avx_vnni {

// As on avx2, a product and its sum in one instruction.
struct PairSums {
  __m256i lo;
  __m256i hi;

  static NG_INLINE PairSums Zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static NG_INLINE PairSums MulAdd(avx2::IntPairs a, avx2::IntPairs b, PairSums sums) {
    // GCC would copy the sums to another register and back around the intrinsic, and run out of
    // them.
    asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sums.lo) : "x"(a.lo), "x"(b.lo));
    asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sums.hi) : "x"(a.hi), "x"(b.hi));
    return sums;
  }
  NG_INLINE avx2::Vec16 ToFloat() const { return {_mm256_cvtepi32_ps(lo), _mm256_cvtepi32_ps(hi)}; }
};

}  // namespace ng::avx_vnni
NG_END_TARGET

NG_BEGIN_TARGET_AVX512
namespace ng::avx512 {

struct IntPairs {
  __m512i v;

  static NG_INLINE IntPairs Load(const void* p) { return {_mm512_loadu_si512(p)}; }
  static NG_INLINE IntPairs LoadFirst(const void* p, int n) {
    return {_mm512_maskz_loadu_epi32(Vec16::First(n), p)};
  }
  NG_INLINE void Store(void* p) const { _mm512_storeu_si512(p, v); }
  static NG_INLINE IntPairs Set(const int16_t* pair) {
    int bits;
    std::memcpy(&bits, pair, sizeof(bits));
    return {_mm512_set1_epi32(bits)};
  }
  template <int kLow, int kBits>
  static NG_INLINE IntPairs Field(IntPairs a) {
    if constexpr (kLow + kBits < 16) a.v = _mm512_slli_epi16(a.v, 16 - kBits - kLow);
    return {_mm512_srai_epi16(a.v, 16 - kBits)};
  }
  static NG_INLINE void Narrow(Vec16 x, int16_t* to) {
    const __m256i narrow = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(x.v));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow);
  }
};

struct PairSums {
  __m512i v;

  static NG_INLINE PairSums Zero() { return {_mm512_setzero_si512()}; }
  static NG_INLINE PairSums MulAdd(IntPairs a, IntPairs b, PairSums sums) {
    return {_mm512_add_epi32(sums.v, _mm512_madd_epi16(a.v, b.v))};
  }
  NG_INLINE Vec16 ToFloat() const { return {_mm512_cvtepi32_ps(v)}; }
};

}  // namespace ng::avx512
NG_END_TARGET

NG_BEGIN_TARGET_AVX512_VNNI
namespace ng::avx512_vnni {

// As on avx512, a product and its sum in one instruction.
struct PairSums {
  __m512i v;

  static NG_INLINE PairSums Zero() { return {_mm512_setzero_si512()}; }
  static NG_INLINE PairSums MulAdd(avx512::IntPairs a, avx512::IntPairs b, PairSums sums) {
    // As above.
    asm("vpdpwssd %2, %1, %0" : "+v"(sums.v) : "v"(a.v), "v"(b.v));
    return sums;
  }
  NG_INLINE avx512::Vec16 ToFloat() const { return {_mm512_cvtepi32_ps(v)}; }
};

}  // namespace ng::avx512_vnni
NG_END_TARGET

#endif  // NG_PLUGINS_ATTENTION_FLASH_FLASH_PAIRS_H_
