// Sixteen f32 lanes on each ISA level, for kernels written once and compiled per level.
//
// A kernel is a template over the vector type, kept in a file of its own and included once per
// level, between the level's target macros:
//
//   #include "ng/vec16.h"
//   NG_BEGIN_TARGET_AVX512
//   #include "my_kernel-inl.h"              // template <class V> void MyKernel(...)
//   void MyKernelAvx512(...) { MyKernel<ng::avx512::Vec16>(...); }
//   NG_END_TARGET
//
// Everything such a file needs from the standard library is included before the macro. All types
// give the same bits: MulAdd rounds once, and reductions add in one fixed order. The scalar type is
// the twin against which the others are tested.
#ifndef NG_VEC16_H_
#define NG_VEC16_H_

#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "ng/half.h"

#define NG_PRAGMA_(text) _Pragma(#text)
#if defined(__clang__)
#define NG_BEGIN_TARGET_(isa) \
  NG_PRAGMA_(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define NG_END_TARGET _Pragma("clang attribute pop")
#else
#define NG_BEGIN_TARGET_(isa) _Pragma("GCC push_options") NG_PRAGMA_(GCC target(isa))
#define NG_END_TARGET _Pragma("GCC pop_options")
#endif
#define NG_BEGIN_TARGET_AVX2 NG_BEGIN_TARGET_("avx2,fma,f16c")
#define NG_BEGIN_TARGET_AVX_VNNI NG_BEGIN_TARGET_("avx2,fma,f16c,avxvnni")
#define NG_BEGIN_TARGET_AVX512 NG_BEGIN_TARGET_("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#define NG_BEGIN_TARGET_AVX512_VNNI \
  NG_BEGIN_TARGET_("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#define NG_BEGIN_TARGET_AVX512_BF16 \
  NG_BEGIN_TARGET_("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")

#define NG_INLINE inline __attribute__((always_inline))

namespace ng::scalar {

// Four quarters of four lanes: every x86-64 has instructions for these. Loops over sixteen floats
// would end in the same instructions, but GCC takes twice as long to find them.
struct Vec16 {
  using Quarter = float __attribute__((vector_size(16)));
  using Ints = int32_t __attribute__((vector_size(16)));
  Quarter q[4];

  NG_INLINE float operator[](int i) const { return q[i / 4][i % 4]; }
  static NG_INLINE Vec16 Set(float x) {
    const Quarter all = {x, x, x, x};
    return {{all, all, all, all}};
  }
  static NG_INLINE Vec16 Load(const float* p) {
    Vec16 r;
    std::memcpy(r.q, p, sizeof(r.q));
    return r;
  }
  // The first n lanes, n <= 16, zero beyond; reads nothing beyond.
  static NG_INLINE Vec16 LoadFirst(const float* p, int n) {
    float lanes[16] = {};
    for (int i = 0; i < n; ++i) lanes[i] = p[i];
    return Load(lanes);
  }
  static NG_INLINE Ints LoadInts(const uint16_t* p, int stride) {
    return Ints{p[0], p[stride], p[2 * stride], p[3 * stride]};
  }
  static NG_INLINE Quarter WidenBf16(Ints bits) { return std::bit_cast<Quarter>(bits << 16); }
  // As F16ToF32 (ng/half.h), without branches.
  static NG_INLINE Quarter WidenF16(Ints bits) {
    const Ints magnitude = bits & 0x7FFF;
    const Ints normal = (magnitude << 13) + (112 << 23);
    const Ints quiet = magnitude > 0x7C00 ? Ints{} + 0x400000 : Ints{};
    const Ints infinite = (normal + (112 << 23)) | quiet;
    const Ints tiny = std::bit_cast<Ints>(__builtin_convertvector(magnitude, Quarter) * 0x1p-24F);
    const Ints widened = magnitude < 0x400 ? tiny : magnitude < 0x7C00 ? normal : infinite;
    return std::bit_cast<Quarter>(widened | (bits & 0x8000) << 16);
  }
  static NG_INLINE Vec16 LoadBf16(const uint16_t* p) {
    Vec16 r;
    for (int i = 0; i < 4; ++i) r.q[i] = WidenBf16(LoadInts(p + 4 * i, 1));
    return r;
  }
  static NG_INLINE Vec16 LoadF16(const uint16_t* p) {
    Vec16 r;
    for (int i = 0; i < 4; ++i) r.q[i] = WidenF16(LoadInts(p + 4 * i, 1));
    return r;
  }
  template <class Byte>
  static NG_INLINE Vec16 LoadBytes(const Byte* p) {
    Vec16 r;
    for (int i = 0; i < 4; ++i, p += 4) {
      r.q[i] = __builtin_convertvector((Ints{p[0], p[1], p[2], p[3]}), Quarter);
    }
    return r;
  }
  static NG_INLINE Vec16 LoadI8(const int8_t* p) { return LoadBytes(p); }
  static NG_INLINE Vec16 LoadU8(const uint8_t* p) { return LoadBytes(p); }
  // Lane i is table[p[i]]. table: [256]
  static NG_INLINE Vec16 Lookup(const float* table, const uint8_t* p) {
    Vec16 r;
    for (int i = 0; i < 4; ++i, p += 4) {
      r.q[i] = Quarter{table[p[0]], table[p[1]], table[p[2]], table[p[3]]};
    }
    return r;
  }
  // p[0] in the even lanes, p[1] in the odd ones.
  static NG_INLINE Vec16 SetPair(const float* p) {
    const Quarter pairs = {p[0], p[1], p[0], p[1]};
    return {{pairs, pairs, pairs, pairs}};
  }
  // p: [16][2]; even takes element 0 of each pair, odd element 1.
  static NG_INLINE void LoadBf16Pairs(const uint16_t* p, Vec16* even, Vec16* odd) {
    for (int i = 0; i < 4; ++i, p += 8) {
      even->q[i] = WidenBf16(LoadInts(p, 2));
      odd->q[i] = WidenBf16(LoadInts(p + 1, 2));
    }
  }
  static NG_INLINE void LoadF16Pairs(const uint16_t* p, Vec16* even, Vec16* odd) {
    for (int i = 0; i < 4; ++i, p += 8) {
      even->q[i] = WidenF16(LoadInts(p, 2));
      odd->q[i] = WidenF16(LoadInts(p + 1, 2));
    }
  }
  NG_INLINE void Store(float* p) const { std::memcpy(p, q, sizeof(q)); }
  NG_INLINE void StoreFirst(float* p, int n) const {
    float lanes[16];
    Store(lanes);
    for (int i = 0; i < n; ++i) p[i] = lanes[i];
  }
  // Lanes at or beyond n become `fill`.
  NG_INLINE Vec16 KeepFirst(int n, float fill) const {
    Vec16 r;
    for (int i = 0; i < 4; ++i) {
      const Ints places = Ints{0, 1, 2, 3} + 4 * i;
      r.q[i] = places < n ? q[i] : Quarter{fill, fill, fill, fill};
    }
    return r;
  }

#define NG_LANEWISE_(name, expr)                  \
  static NG_INLINE Vec16 name(Vec16 a, Vec16 b) { \
    for (int i = 0; i < 4; ++i) {                 \
      const Quarter x = a.q[i];                   \
      const Quarter y = b.q[i];                   \
      a.q[i] = (expr);                            \
    }                                             \
    return a;                                     \
  }
  NG_LANEWISE_(Add, x + y)
  NG_LANEWISE_(Sub, x - y)
  NG_LANEWISE_(Mul, x* y)
  NG_LANEWISE_(Div, x / y)
  NG_LANEWISE_(Max, x > y ? x : y)  // as maxps: y when either is NaN
  NG_LANEWISE_(Min, x < y ? x : y)  // as minps: y when either is NaN
#undef NG_LANEWISE_

  // The larger of |a| and b, which is no less than 0, as their bits order them: infinity is more
  // than any number, and NaN more than infinity, so that neither gets lost.
  static NG_INLINE Vec16 MaxMagnitude(Vec16 a, Vec16 b) {
    for (int i = 0; i < 4; ++i) {
      const Ints x = std::bit_cast<Ints>(a.q[i]) & 0x7FFFFFFF;
      const Ints y = std::bit_cast<Ints>(b.q[i]);
      b.q[i] = std::bit_cast<Quarter>(x > y ? x : y);
    }
    return b;
  }
  // a * b + c of two lanes, so that rounding it to float rounds the exact result. In double the
  // product is exact. The sum is rounded to odd: where it is inexact, the neighbour towards zero
  // with its last bit set stands for all that lies between two doubles.
  static NG_INLINE __m128d MulAddToOdd(__m128d a, __m128d b, __m128d c) {
    using Words = uint64_t __attribute__((vector_size(16)));
    const __m128d product = a * b;
    const __m128d sum = product + c;
    const __m128d added = sum - product;
    const __m128d lost = (product - (sum - added)) + (c - added);            // sum + lost is exact
    const auto inexact = std::bit_cast<Words>((lost < 0.0) | (lost > 0.0));  // not where it is NaN
    const auto bits = std::bit_cast<Words>(sum);
    const Words beyond = (bits ^ std::bit_cast<Words>(lost)) >> 63;  // the sum is further from 0
    return std::bit_cast<__m128d>((bits - (beyond & inexact)) | (inexact & 1));
  }
  // a * b + c, rounded once, as std::fma. Calling that for each lane takes more than twice as long.
  static NG_INLINE Vec16 MulAdd(Vec16 a, Vec16 b, Vec16 c) {
    for (int i = 0; i < 4; ++i) {
      const auto pair = [](Quarter x, bool high) {
        return _mm_cvtps_pd(high ? _mm_movehl_ps(x, x) : x);
      };
      const __m128d low =
          MulAddToOdd(pair(a.q[i], false), pair(b.q[i], false), pair(c.q[i], false));
      const __m128d high = MulAddToOdd(pair(a.q[i], true), pair(b.q[i], true), pair(c.q[i], true));
      c.q[i] = _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
    }
    return c;
  }
  // To the nearest whole number, ties to even.
  static NG_INLINE Vec16 Round(Vec16 a) {
    for (Quarter& x : a.q) {
      x = Quarter{std::nearbyintf(x[0]), std::nearbyintf(x[1]), std::nearbyintf(x[2]),
                  std::nearbyintf(x[3])};
    }
    return a;
  }
  // a * 2^n for whole n in [-126, 127]; NaN where a is NaN, whatever n.
  static NG_INLINE Vec16 Scale2(Vec16 a, Vec16 n) {
    for (int i = 0; i < 4; ++i) {
      // Adding 2^23 leaves n + 127 in the low bits, without a conversion that NaN would overflow.
      const auto exponent = std::bit_cast<Ints>(n.q[i] + (0x1p23F + 127.0F));
      a.q[i] *= std::bit_cast<Quarter>(exponent << 23);
    }
    return a;
  }
  // Lanes of `yes` where a < b, of `no` elsewhere (NaN: no).
  static NG_INLINE Vec16 SelectLess(Vec16 a, Vec16 b, Vec16 yes, Vec16 no) {
    for (int i = 0; i < 4; ++i) no.q[i] = a.q[i] < b.q[i] ? yes.q[i] : no.q[i];
    return no;
  }
  // Lanes of `yes` where bit i of the low 16 is set, of `no` elsewhere.
  static NG_INLINE Vec16 SelectBits(uint32_t bits, Vec16 yes, Vec16 no) {
    for (int i = 0; i < 4; ++i) {
      const int four = static_cast<int>(bits >> 4 * i & 15U);
      no.q[i] = (Ints{1, 2, 4, 8} & four) != 0 ? yes.q[i] : no.q[i];
    }
    return no;
  }
  // Bit i: whether a < b in lane i.
  static NG_INLINE uint32_t LessBits(Vec16 a, Vec16 b) {
    uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) {
      const int four = _mm_movemask_ps(std::bit_cast<Quarter>(a.q[i] < b.q[i]));
      bits |= static_cast<uint32_t>(four) << 4 * i;
    }
    return bits;
  }
  // Zero in the odd lanes.
  static NG_INLINE Vec16 KeepEven(Vec16 a) {
    for (Quarter& x : a.q) x = Quarter{x[0], 0.0F, x[2], 0.0F};
    return a;
  }
  // Zero in the even lanes.
  static NG_INLINE Vec16 KeepOdd(Vec16 a) {
    for (Quarter& x : a.q) x = Quarter{0.0F, x[1], 0.0F, x[3]};
    return a;
  }
  // Each even lane added to the odd one behind it: 8 sums of `low`, then 8 of `high`.
  static NG_INLINE Quarter AddPairs8(Quarter a, Quarter b) {
    return _mm_shuffle_ps(a, b, 0x88) + _mm_shuffle_ps(a, b, 0xDD);
  }
  static NG_INLINE Vec16 AddPairs(Vec16 low, Vec16 high) {
    return {{AddPairs8(low.q[0], low.q[1]), AddPairs8(low.q[2], low.q[3]),
             AddPairs8(high.q[0], high.q[1]), AddPairs8(high.q[2], high.q[3])}};
  }
  // ((0+8)+(4+12)) + ... : halves folded onto each other, the order of the wide versions.
  NG_INLINE float Sum() const {
    const Quarter t = (q[0] + q[2]) + (q[1] + q[3]);
    return (t[0] + t[2]) + (t[1] + t[3]);
  }
  // Halves folded as in Sum(), each step as Max: which NaN survives is the same on every level.
  NG_INLINE float MaxLane() const {
    const Vec16 halves = Max(*this, {{q[2], q[3], q[2], q[3]}});
    const Quarter t = halves.q[0] > halves.q[1] ? halves.q[0] : halves.q[1];
    const float even = t[0] > t[2] ? t[0] : t[2];
    const float odd = t[1] > t[3] ? t[1] : t[3];
    return even > odd ? even : odd;
  }
  // The largest lane of what MaxMagnitude gave.
  NG_INLINE float MaxMagnitudeLane() const {
    int32_t most = 0;
    for (const Quarter& x : q) {
      for (int i = 0; i < 4; ++i) {
        const auto bits = std::bit_cast<int32_t>(x[i]);
        most = most > bits ? most : bits;
      }
    }
    return std::bit_cast<float>(most);
  }
};

}  // namespace ng::scalar

NG_BEGIN_TARGET_AVX2
namespace ng::avx2 {

struct Vec16 {
  __m256 lo;
  __m256 hi;

  static NG_INLINE Vec16 Set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static NG_INLINE Vec16 Load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
  }
  static NG_INLINE Vec16 SetPair(const float* p) {
    const __m256d pair = _mm256_broadcast_sd(reinterpret_cast<const double*>(p));
    return {_mm256_castpd_ps(pair), _mm256_castpd_ps(pair)};
  }
  static NG_INLINE __m256i First(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static NG_INLINE Vec16 LoadFirst(const float* p, int n) {
    return {_mm256_maskload_ps(p, First(n)), _mm256_maskload_ps(p + 8, First(n - 8))};
  }
  static NG_INLINE __m256 WidenBf16(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static NG_INLINE __m128i Load128(const uint16_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static NG_INLINE __m256i Load256(const uint16_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static NG_INLINE Vec16 LoadBf16(const uint16_t* p) {
    return {WidenBf16(Load128(p)), WidenBf16(Load128(p + 8))};
  }
  static NG_INLINE Vec16 LoadF16(const uint16_t* p) {
    return {_mm256_cvtph_ps(Load128(p)), _mm256_cvtph_ps(Load128(p + 8))};
  }
  static NG_INLINE Vec16 LoadI8(const int8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
  }
  static NG_INLINE Vec16 LoadU8(const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
  }
  static NG_INLINE Vec16 Lookup(const float* table, const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_i32gather_ps(table, _mm256_cvtepu8_epi32(bytes), 4),
            _mm256_i32gather_ps(table, _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)), 4)};
  }
  static NG_INLINE void LoadBf16Pairs(const uint16_t* p, Vec16* even, Vec16* odd) {
    const __m256i high = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
    const __m256i a = Load256(p);
    const __m256i b = Load256(p + 16);
    *even = {_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)),
             _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
    *odd = {_mm256_castsi256_ps(_mm256_and_si256(a, high)),
            _mm256_castsi256_ps(_mm256_and_si256(b, high))};
  }
  // 8 pairs -> the first elements of the pairs, as 8 halves.
  static NG_INLINE __m128i NarrowLow16(__m256i pairs) {
    const __m256i low = _mm256_and_si256(pairs, _mm256_set1_epi32(0xFFFF));
    const __m256i packed = _mm256_packus_epi32(low, low);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
  }
  static NG_INLINE void LoadF16Pairs(const uint16_t* p, Vec16* even, Vec16* odd) {
    const __m256i a = Load256(p);
    const __m256i b = Load256(p + 16);
    *even = {_mm256_cvtph_ps(NarrowLow16(a)), _mm256_cvtph_ps(NarrowLow16(b))};
    *odd = {_mm256_cvtph_ps(NarrowLow16(_mm256_srli_epi32(a, 16))),
            _mm256_cvtph_ps(NarrowLow16(_mm256_srli_epi32(b, 16)))};
  }
  NG_INLINE void Store(float* p) const {
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
  }
  NG_INLINE void StoreFirst(float* p, int n) const {
    _mm256_maskstore_ps(p, First(n), lo);
    _mm256_maskstore_ps(p + 8, First(n - 8), hi);
  }
  NG_INLINE Vec16 KeepFirst(int n, float fill) const {
    const __m256 f = _mm256_set1_ps(fill);
    return {_mm256_blendv_ps(f, lo, _mm256_castsi256_ps(First(n))),
            _mm256_blendv_ps(f, hi, _mm256_castsi256_ps(First(n - 8)))};
  }
  static NG_INLINE Vec16 Add(Vec16 a, Vec16 b) {
    return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
  }
  static NG_INLINE Vec16 Sub(Vec16 a, Vec16 b) {
    return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
  }
  static NG_INLINE Vec16 Mul(Vec16 a, Vec16 b) {
    return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
  }
  static NG_INLINE Vec16 Div(Vec16 a, Vec16 b) {
    return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
  }
  static NG_INLINE Vec16 Max(Vec16 a, Vec16 b) {
    return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
  }
  static NG_INLINE Vec16 Min(Vec16 a, Vec16 b) {
    return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
  }
  static NG_INLINE Vec16 MulAdd(Vec16 a, Vec16 b, Vec16 c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
  }
  static NG_INLINE Vec16 Round(Vec16 a) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(a.lo, kNearest), _mm256_round_ps(a.hi, kNearest)};
  }
  static NG_INLINE __m256 Pow2(__m256 n) {
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
  }
  static NG_INLINE Vec16 Scale2(Vec16 a, Vec16 n) {
    return {_mm256_mul_ps(a.lo, Pow2(n.lo)), _mm256_mul_ps(a.hi, Pow2(n.hi))};
  }
  static NG_INLINE Vec16 SelectLess(Vec16 a, Vec16 b, Vec16 yes, Vec16 no) {
    return {_mm256_blendv_ps(no.lo, yes.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.hi, yes.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
  }
  // All ones in the lanes whose bit is set.
  static NG_INLINE __m256 Lanes(uint32_t bits) {
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), lane);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane));
  }
  static NG_INLINE Vec16 SelectBits(uint32_t bits, Vec16 yes, Vec16 no) {
    return {_mm256_blendv_ps(no.lo, yes.lo, Lanes(bits)),
            _mm256_blendv_ps(no.hi, yes.hi, Lanes(bits >> 8))};
  }
  static NG_INLINE uint32_t LessBits(Vec16 a, Vec16 b) {
    const int lo = _mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ));
    const int hi = _mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ));
    return static_cast<uint32_t>(lo | hi << 8);
  }
  static NG_INLINE Vec16 KeepEven(Vec16 a) {
    return {_mm256_blend_ps(a.lo, _mm256_setzero_ps(), 0xAA),
            _mm256_blend_ps(a.hi, _mm256_setzero_ps(), 0xAA)};
  }
  static NG_INLINE Vec16 KeepOdd(Vec16 a) {
    return {_mm256_blend_ps(a.lo, _mm256_setzero_ps(), 0x55),
            _mm256_blend_ps(a.hi, _mm256_setzero_ps(), 0x55)};
  }
  static NG_INLINE __m256 AddPairs8(Vec16 a) {
    const __m256d sums = _mm256_castps_pd(_mm256_hadd_ps(a.lo, a.hi));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(sums, 0xD8));
  }
  static NG_INLINE Vec16 AddPairs(Vec16 low, Vec16 high) {
    return {AddPairs8(low), AddPairs8(high)};
  }
  static NG_INLINE float Sum8(__m256 v) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  NG_INLINE float Sum() const { return Sum8(_mm256_add_ps(lo, hi)); }
  static NG_INLINE float Max8(__m256 v) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  NG_INLINE float MaxLane() const { return Max8(_mm256_max_ps(lo, hi)); }
  static NG_INLINE __m256 MaxMagnitude8(__m256 a, __m256 b) {
    const __m256i x = _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(0x7FFFFFFF));
    return _mm256_castsi256_ps(_mm256_max_epi32(x, _mm256_castps_si256(b)));
  }
  static NG_INLINE Vec16 MaxMagnitude(Vec16 a, Vec16 b) {
    return {MaxMagnitude8(a.lo, b.lo), MaxMagnitude8(a.hi, b.hi)};
  }
  static NG_INLINE float MaxMagnitudeLane8(__m256i v) {
    const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    const __m128i one = _mm_max_epi32(two, _mm_shuffle_epi32(two, 0xB1));
    return _mm_cvtss_f32(_mm_castsi128_ps(one));
  }
  NG_INLINE float MaxMagnitudeLane() const {
    return MaxMagnitudeLane8(_mm256_max_epi32(_mm256_castps_si256(lo), _mm256_castps_si256(hi)));
  }
};

}  // namespace ng::avx2
NG_END_TARGET

NG_BEGIN_TARGET_AVX512
namespace ng::avx512 {

struct Vec16 {
  __m512 v;

  // Intrinsics that take a mask get this one, which changes no instruction: GCC 12 takes the plain
  // ones for a use of something uninitialised (GCC bug 105593).
  static constexpr __mmask16 kAll = 0xFFFF;

  static NG_INLINE __mmask16 First(int n) {
    return n >= 16 ? static_cast<__mmask16>(0xFFFFU)
                   : static_cast<__mmask16>((1U << (n < 0 ? 0 : n)) - 1U);
  }
  static NG_INLINE Vec16 Set(float x) { return {_mm512_set1_ps(x)}; }
  static NG_INLINE Vec16 SetPair(const float* p) {
    return {_mm512_castpd_ps(
        _mm512_maskz_broadcastsd_pd(0xFF, _mm_load_sd(reinterpret_cast<const double*>(p))))};
  }
  static NG_INLINE Vec16 Load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static NG_INLINE Vec16 LoadFirst(const float* p, int n) {
    return {_mm512_maskz_loadu_ps(First(n), p)};
  }
  static NG_INLINE Vec16 LoadBf16(const uint16_t* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(
        _mm512_maskz_slli_epi32(kAll, _mm512_maskz_cvtepu16_epi32(kAll, bits), 16))};
  }
  static NG_INLINE Vec16 LoadF16(const uint16_t* p) {
    return {_mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static NG_INLINE Vec16 LoadI8(const int8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm512_maskz_cvtepi32_ps(kAll, _mm512_maskz_cvtepi8_epi32(kAll, bytes))};
  }
  static NG_INLINE Vec16 LoadU8(const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm512_maskz_cvtepi32_ps(kAll, _mm512_maskz_cvtepu8_epi32(kAll, bytes))};
  }
  static NG_INLINE Vec16 Lookup(const float* table, const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm512_mask_i32gather_ps(_mm512_setzero_ps(), kAll,
                                     _mm512_maskz_cvtepu8_epi32(kAll, bytes), table, 4)};
  }
  static NG_INLINE void LoadBf16Pairs(const uint16_t* p, Vec16* even, Vec16* odd) {
    const __m512i pairs = _mm512_loadu_si512(p);
    even->v = _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, pairs, 16));
    odd->v = _mm512_castsi512_ps(
        _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
  }
  static NG_INLINE void LoadF16Pairs(const uint16_t* p, Vec16* even, Vec16* odd) {
    const __m512i pairs = _mm512_loadu_si512(p);
    even->v = _mm512_maskz_cvtph_ps(kAll, _mm512_maskz_cvtepi32_epi16(kAll, pairs));
    odd->v = _mm512_maskz_cvtph_ps(
        kAll, _mm512_maskz_cvtepi32_epi16(kAll, _mm512_maskz_srli_epi32(kAll, pairs, 16)));
  }
  NG_INLINE void Store(float* p) const { _mm512_storeu_ps(p, v); }
  NG_INLINE void StoreFirst(float* p, int n) const { _mm512_mask_storeu_ps(p, First(n), v); }
  NG_INLINE Vec16 KeepFirst(int n, float fill) const {
    return {_mm512_mask_blend_ps(First(n), _mm512_set1_ps(fill), v)};
  }
  static NG_INLINE Vec16 Add(Vec16 a, Vec16 b) { return {_mm512_add_ps(a.v, b.v)}; }
  static NG_INLINE Vec16 Sub(Vec16 a, Vec16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  static NG_INLINE Vec16 Mul(Vec16 a, Vec16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  static NG_INLINE Vec16 Div(Vec16 a, Vec16 b) { return {_mm512_div_ps(a.v, b.v)}; }
  static NG_INLINE Vec16 Max(Vec16 a, Vec16 b) { return {_mm512_maskz_max_ps(kAll, a.v, b.v)}; }
  static NG_INLINE Vec16 Min(Vec16 a, Vec16 b) { return {_mm512_maskz_min_ps(kAll, a.v, b.v)}; }
  static NG_INLINE Vec16 MulAdd(Vec16 a, Vec16 b, Vec16 c) {
    return {_mm512_fmadd_ps(a.v, b.v, c.v)};
  }
  static NG_INLINE Vec16 Round(Vec16 a) {
    return {_mm512_maskz_roundscale_ps(kAll, a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  static NG_INLINE Vec16 Scale2(Vec16 a, Vec16 n) {
    return {_mm512_maskz_scalef_ps(kAll, a.v, n.v)};
  }
  static NG_INLINE Vec16 SelectLess(Vec16 a, Vec16 b, Vec16 yes, Vec16 no) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
  }
  static NG_INLINE Vec16 SelectBits(uint32_t bits, Vec16 yes, Vec16 no) {
    return {_mm512_mask_blend_ps(static_cast<__mmask16>(bits), no.v, yes.v)};
  }
  static NG_INLINE uint32_t LessBits(Vec16 a, Vec16 b) {
    return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ);
  }
  static NG_INLINE Vec16 KeepEven(Vec16 a) { return {_mm512_maskz_mov_ps(0x5555, a.v)}; }
  static NG_INLINE Vec16 KeepOdd(Vec16 a) { return {_mm512_maskz_mov_ps(0xAAAA, a.v)}; }
  static NG_INLINE Vec16 AddPairs(Vec16 low, Vec16 high) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    return {_mm512_add_ps(_mm512_permutex2var_ps(low.v, even, high.v),
                          _mm512_permutex2var_ps(low.v, odd, high.v))};
  }
  NG_INLINE float Sum() const {
    const __m256 eight = _mm256_add_ps(_mm512_maskz_extractf32x8_ps(0xFF, v, 0),
                                       _mm512_maskz_extractf32x8_ps(0xFF, v, 1));
    return avx2::Vec16::Sum8(eight);
  }
  NG_INLINE float MaxLane() const {
    const __m256 eight = _mm256_max_ps(_mm512_maskz_extractf32x8_ps(0xFF, v, 0),
                                       _mm512_maskz_extractf32x8_ps(0xFF, v, 1));
    return avx2::Vec16::Max8(eight);
  }
  static NG_INLINE Vec16 MaxMagnitude(Vec16 a, Vec16 b) {
    const __m512i x = _mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x7FFFFFFF));
    return {_mm512_castsi512_ps(_mm512_maskz_max_epi32(kAll, x, _mm512_castps_si512(b.v)))};
  }
  NG_INLINE float MaxMagnitudeLane() const {
    const __m512i bits = _mm512_castps_si512(v);
    return avx2::Vec16::MaxMagnitudeLane8(
        _mm256_max_epi32(_mm512_maskz_extracti32x8_epi32(0xFF, bits, 0),
                         _mm512_maskz_extracti32x8_epi32(0xFF, bits, 1)));
  }
};

}  // namespace ng::avx512
NG_END_TARGET

#endif  // NG_VEC16_H_
