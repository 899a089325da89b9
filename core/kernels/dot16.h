// Dot products of bytes, sixteen side by side, on each ISA level: the integer twin of ng/vec16.h.
//
// Weights are unsigned bytes, 16 columns x 4 inputs in one load; inputs are signed bytes in [-127,
// 127], four in a broadcast word, from a block that the level's StoreInputs wrote (Input). Sums are
// exact integers on every level, so the levels differ only in speed. A Sum holds at most one block
// of 32 inputs (eight words): without VNNI it adds in 16 bits, which a ninth word could overflow.
// Call Start first, with what is to be added to the products: with VNNI the sum begins there, else
// Finish adds it. There is no constructor, because GCC compiles an implicit one for the baseline,
// whatever the target around it is.
//
// Field and Plus work on every byte: Field moves its bits [kFrom, kFrom + kWidth) to kTo and clears
// the others; Plus adds a constant. LookUp takes bytes below 16 to what the table [16] holds for
// them. PowersOfTwo: 2^(byte - 127) of each of 16 bytes; infinite for 255.
#ifndef NG_CORE_KERNELS_DOT16_H_
#define NG_CORE_KERNELS_DOT16_H_

#include <immintrin.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

namespace ng {

// Four bytes, to be broadcast.
NG_INLINE int32_t Word(const int8_t* bytes) {
  int32_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// The sum of 16 bytes.
NG_INLINE int16_t SumOf16(const int8_t* bytes) {
  const __m128i signed_bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  const __m128i above = _mm_xor_si128(signed_bytes, _mm_set1_epi8(-128));  // each 128 more
  const __m128i halves = _mm_sad_epu8(above, _mm_setzero_si128());
  const int sum = _mm_extract_epi16(halves, 0) + _mm_extract_epi16(halves, 4);
  return static_cast<int16_t>(sum - 16 * 128);
}

}  // namespace ng

namespace ng::scalar {

// SSE2, which every x86-64 has.
struct Dot16 {
  using V = Vec16;
  using Input = QuantizedInput;
  static constexpr InputType kInput = InputType::kInt8;
  struct Bytes {
    __m128i q[4];  // four columns each
  };
  static NG_INLINE Bytes Load(const std::byte* p) {
    Bytes r;
    std::memcpy(r.q, p, sizeof(r.q));
    return r;
  }
  static NG_INLINE void Store(const Bytes& b, std::byte* p) { std::memcpy(p, b.q, sizeof(b.q)); }
  template <int kFrom, int kTo, int kWidth>
  static NG_INLINE Bytes Field(Bytes b) {
    if constexpr (kWidth == 8) return b;
    for (__m128i& q : b.q) {
      if constexpr (kFrom > kTo) q = _mm_srli_epi16(q, kFrom - kTo);
      if constexpr (kFrom < kTo) q = _mm_slli_epi16(q, kTo - kFrom);
      q = _mm_and_si128(q, _mm_set1_epi8(static_cast<char>(((1 << kWidth) - 1) << kTo)));
    }
    return b;
  }
  static NG_INLINE Bytes Or(Bytes a, const Bytes& b) {
    for (int i = 0; i < 4; ++i) a.q[i] = _mm_or_si128(a.q[i], b.q[i]);
    return a;
  }
  template <int kAdded>
  static NG_INLINE Bytes Plus(Bytes b) {
    for (__m128i& q : b.q) q = _mm_add_epi8(q, _mm_set1_epi8(kAdded));
    return b;
  }
  static NG_INLINE Bytes LookUp(const uint8_t* table, Bytes b) {
    uint8_t bytes[sizeof(b.q)];
    std::memcpy(bytes, b.q, sizeof(bytes));
    for (uint8_t& byte : bytes) byte = table[byte];
    std::memcpy(b.q, bytes, sizeof(bytes));
    return b;
  }
  static NG_INLINE V PowersOfTwo(const std::byte* p) {
    V r;
    for (int i = 0; i < 4; ++i) {
      const auto bits = [&](int lane) {
        const auto power = std::to_integer<int32_t>(p[4 * i + lane]);
        return power == 0 ? 0x00400000 : power << 23;
      };
      r.q[i] = _mm_castsi128_ps(_mm_setr_epi32(bits(0), bits(1), bits(2), bits(3)));
    }
    return r;
  }
  // kBits: the bits of a weight, 4 or 8.
  template <int kBits>
  struct Sum {
    __m128i halves[8];  // two sums for each column: of inputs 0 and 1, and of inputs 2 and 3
    NG_INLINE void Start(int32_t /*correction*/) {
      for (__m128i& h : halves) h = _mm_setzero_si128();
    }
    NG_INLINE void Add(Bytes w, const Input& x, int at) {
      const __m128i bytes = _mm_set1_epi32(Word(x.q + at));
      const __m128i inputs = _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
      for (int i = 0; i < 4; ++i) {
        const __m128i low = _mm_unpacklo_epi8(w.q[i], _mm_setzero_si128());
        const __m128i high = _mm_unpackhi_epi8(w.q[i], _mm_setzero_si128());
        halves[2 * i] = _mm_add_epi32(halves[2 * i], _mm_madd_epi16(low, inputs));
        halves[2 * i + 1] = _mm_add_epi32(halves[2 * i + 1], _mm_madd_epi16(high, inputs));
      }
    }
    // The sum and the correction, as floats.
    NG_INLINE V Finish(int32_t correction) const {
      V r;
      for (int i = 0; i < 4; ++i) {
        const __m128 a = _mm_castsi128_ps(halves[2 * i]);
        const __m128 b = _mm_castsi128_ps(halves[2 * i + 1]);
        const __m128i first = _mm_castps_si128(_mm_shuffle_ps(a, b, 0x88));
        const __m128i second = _mm_castps_si128(_mm_shuffle_ps(a, b, 0xDD));
        const __m128i sum = _mm_add_epi32(first, second);
        r.q[i] = _mm_cvtepi32_ps(_mm_add_epi32(sum, _mm_set1_epi32(correction)));
      }
      return r;
    }
  };
  // Whole numbers in [-127, 127] to bytes.
  static NG_INLINE void StoreInputs(V x, int at, Input* to) {
    const __m128i low = _mm_packs_epi32(_mm_cvtps_epi32(x.q[0]), _mm_cvtps_epi32(x.q[1]));
    const __m128i high = _mm_packs_epi32(_mm_cvtps_epi32(x.q[2]), _mm_cvtps_epi32(x.q[3]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to->q + at), _mm_packs_epi16(low, high));
  }
};

}  // namespace ng::scalar

NG_BEGIN_TARGET_AVX2
namespace ng::avx2 {

struct Dot16 {
  using V = Vec16;
  using Input = SplitInput;
  static constexpr InputType kInput = InputType::kInt8Split;
  struct Bytes {
    __m256i lo;
    __m256i hi;
  };
  static NG_INLINE Bytes Load(const std::byte* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
  }
  static NG_INLINE void Store(Bytes b, std::byte* p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), b.lo);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), b.hi);
  }
  template <int kFrom, int kTo, int kWidth>
  static NG_INLINE __m256i Field256(__m256i b) {
    if constexpr (kWidth == 8) return b;
    if constexpr (kFrom > kTo) b = _mm256_srli_epi16(b, kFrom - kTo);
    if constexpr (kFrom < kTo) b = _mm256_slli_epi16(b, kTo - kFrom);
    return _mm256_and_si256(b, _mm256_set1_epi8(static_cast<char>(((1 << kWidth) - 1) << kTo)));
  }
  template <int kFrom, int kTo, int kWidth>
  static NG_INLINE Bytes Field(Bytes b) {
    return {Field256<kFrom, kTo, kWidth>(b.lo), Field256<kFrom, kTo, kWidth>(b.hi)};
  }
  static NG_INLINE Bytes Or(Bytes a, Bytes b) {
    return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
  }
  template <int kAdded>
  static NG_INLINE Bytes Plus(Bytes b) {
    const __m256i added = _mm256_set1_epi8(kAdded);
    return {_mm256_add_epi8(b.lo, added), _mm256_add_epi8(b.hi, added)};
  }
  static NG_INLINE Bytes LookUp(const uint8_t* table, Bytes b) {
    const __m256i values =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
    return {_mm256_shuffle_epi8(values, b.lo), _mm256_shuffle_epi8(values, b.hi)};
  }
  static NG_INLINE V PowersOfTwo(const std::byte* p) { return {Powers8(p), Powers8(p + 8)}; }
  static NG_INLINE __m256 Powers8(const std::byte* p) {
    const __m256i powers =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(
        _mm256_max_epi32(_mm256_slli_epi32(powers, 23), _mm256_set1_epi32(0x00400000)));
  }
  template <int kBits>
  struct Sum {
    // 16-bit sums: one of the inputs' lower parts (or of all of them), one of their upper parts.
    Bytes low;
    Bytes high;
    NG_INLINE void Start(int32_t /*correction*/) {
      low.lo = low.hi = _mm256_setzero_si256();
      high.lo = high.hi = _mm256_setzero_si256();
    }
    static NG_INLINE void AddTo(Bytes w, const int8_t* x, Bytes* sum) {
      const __m256i inputs = _mm256_set1_epi32(Word(x));
      sum->lo = _mm256_add_epi16(sum->lo, _mm256_maddubs_epi16(w.lo, inputs));
      sum->hi = _mm256_add_epi16(sum->hi, _mm256_maddubs_epi16(w.hi, inputs));
      // Else GCC brings the additions into an order that keeps all products until the end.
      asm("" : "+x"(sum->lo), "+x"(sum->hi));
    }
    NG_INLINE void Add(Bytes w, const Input& x, int at) {
      AddTo(w, (kBits == 4 ? x.q : x.low) + at, &low);
      if constexpr (kBits == 8) AddTo(w, x.high + at, &high);
    }
    static NG_INLINE __m256 Join(__m256i low, __m256i high, int32_t correction) {
      __m256i sum = _mm256_madd_epi16(low, _mm256_set1_epi16(1));
      if constexpr (kBits == 8) {
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(high, _mm256_set1_epi16(16)));
      }
      return _mm256_cvtepi32_ps(_mm256_add_epi32(sum, _mm256_set1_epi32(correction)));
    }
    NG_INLINE V Finish(int32_t correction) const {
      return {Join(low.lo, high.lo, correction), Join(low.hi, high.hi, correction)};
    }
  };
  static NG_INLINE __m256i Words(V x) {
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi));
    return _mm256_permute4x64_epi64(words, 0xD8);
  }
  static NG_INLINE void StoreInputs(V x, int at, Input* to) {
    const __m256i q = Words(x);
    const __m256i high = _mm256_srai_epi16(_mm256_add_epi16(q, _mm256_set1_epi16(8)), 4);
    StoreBytes(q, to->q + at);
    StoreBytes(high, to->high + at);
    StoreBytes(_mm256_sub_epi16(q, _mm256_slli_epi16(high, 4)), to->low + at);
  }
  static NG_INLINE void StoreBytes(__m256i words, int8_t* p) {
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  }
};

}  // namespace ng::avx2
NG_END_TARGET

NG_BEGIN_TARGET_AVX_VNNI
namespace ng::avx_vnni {

struct Dot16 : avx2::Dot16 {
  using Input = QuantizedInput;
  static constexpr InputType kInput = InputType::kInt8;
  template <int kBits>
  struct Sum {
    __m256i lo;
    __m256i hi;
    NG_INLINE void Start(int32_t correction) { lo = hi = _mm256_set1_epi32(correction); }
    NG_INLINE void Add(Bytes w, const Input& x, int at) {
      const __m256i inputs = _mm256_set1_epi32(Word(x.q + at));
      lo = _mm256_dpbusd_avx_epi32(lo, w.lo, inputs);
      hi = _mm256_dpbusd_avx_epi32(hi, w.hi, inputs);
    }
    NG_INLINE V Finish(int32_t /*correction*/) const {
      return {_mm256_cvtepi32_ps(lo), _mm256_cvtepi32_ps(hi)};
    }
  };
  static NG_INLINE void StoreInputs(V x, int at, Input* to) { StoreBytes(Words(x), to->q + at); }
};

}  // namespace ng::avx_vnni
NG_END_TARGET

NG_BEGIN_TARGET_AVX512
namespace ng::avx512 {

struct Dot16 {
  using V = Vec16;
  using Input = SplitInput;
  static constexpr InputType kInput = InputType::kInt8Split;
  using Bytes = __m512i;
  static NG_INLINE Bytes Load(const std::byte* p) { return _mm512_loadu_si512(p); }
  static NG_INLINE void Store(Bytes b, std::byte* p) { _mm512_storeu_si512(p, b); }
  template <int kFrom, int kTo, int kWidth>
  static NG_INLINE Bytes Field(Bytes b) {
    if constexpr (kWidth == 8) return b;
    if constexpr (kFrom > kTo) b = _mm512_srli_epi16(b, kFrom - kTo);
    if constexpr (kFrom < kTo) b = _mm512_slli_epi16(b, kTo - kFrom);
    return _mm512_and_si512(b, _mm512_set1_epi8(static_cast<char>(((1 << kWidth) - 1) << kTo)));
  }
  static NG_INLINE Bytes Or(Bytes a, Bytes b) { return _mm512_or_si512(a, b); }
  template <int kAdded>
  static NG_INLINE Bytes Plus(Bytes b) {
    return _mm512_add_epi8(b, _mm512_set1_epi8(kAdded));
  }
  static NG_INLINE Bytes LookUp(const uint8_t* table, Bytes b) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), b);
  }
  static NG_INLINE V PowersOfTwo(const std::byte* p) {
    const __m512i powers =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm512_castsi512_ps(
        _mm512_max_epi32(_mm512_slli_epi32(powers, 23), _mm512_set1_epi32(0x00400000)))};
  }
  template <int kBits>
  struct Sum {
    __m512i low;
    __m512i high;
    NG_INLINE void Start(int32_t /*correction*/) { low = high = _mm512_setzero_si512(); }
    static NG_INLINE void AddTo(Bytes w, const int8_t* x, __m512i* sum) {
      *sum = _mm512_add_epi16(*sum, _mm512_maddubs_epi16(w, _mm512_set1_epi32(Word(x))));
      asm("" : "+v"(*sum));  // as for AVX2
    }
    NG_INLINE void Add(Bytes w, const Input& x, int at) {
      AddTo(w, (kBits == 4 ? x.q : x.low) + at, &low);
      if constexpr (kBits == 8) AddTo(w, x.high + at, &high);
    }
    NG_INLINE V Finish(int32_t correction) const {
      __m512i sum = _mm512_madd_epi16(low, _mm512_set1_epi16(1));
      if constexpr (kBits == 8) {
        sum = _mm512_add_epi32(sum, _mm512_madd_epi16(high, _mm512_set1_epi16(16)));
      }
      return {_mm512_cvtepi32_ps(_mm512_add_epi32(sum, _mm512_set1_epi32(correction)))};
    }
  };
  static NG_INLINE void StoreInputs(V x, int at, Input* to) {
    const __m512i q = _mm512_cvtps_epi32(x.v);
    const __m512i high = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(8)), 4);
    StoreBytes(q, to->q + at);
    StoreBytes(high, to->high + at);
    StoreBytes(_mm512_sub_epi32(q, _mm512_slli_epi32(high, 4)), to->low + at);
  }
  static NG_INLINE void StoreBytes(__m512i words, int8_t* p) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(words));
  }
};

}  // namespace ng::avx512
NG_END_TARGET

NG_BEGIN_TARGET_AVX512_VNNI
namespace ng::avx512_vnni {

struct Dot16 : avx512::Dot16 {
  using Input = QuantizedInput;
  static constexpr InputType kInput = InputType::kInt8;
  template <int kBits>
  struct Sum {
    __m512i sum;
    NG_INLINE void Start(int32_t correction) { sum = _mm512_set1_epi32(correction); }
    NG_INLINE void Add(Bytes w, const Input& x, int at) {
      sum = _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(Word(x.q + at)));
    }
    NG_INLINE V Finish(int32_t /*correction*/) const { return {_mm512_cvtepi32_ps(sum)}; }
  };
  static NG_INLINE void StoreInputs(V x, int at, Input* to) {
    StoreBytes(_mm512_cvtps_epi32(x.v), to->q + at);
  }
};

}  // namespace ng::avx512_vnni
NG_END_TARGET

#endif  // NG_CORE_KERNELS_DOT16_H_
