// Codes of floats whose values are numbers of bf16, for levels with its dot product
// (bf16_dot-inl.h). Included after that file.

#include <immintrin.h>

#include "core/kernels/float_codes-inl.h"

namespace ng {

// Inputs 2 * pair and 2 * pair + 1. weights: [16][2]
template <class V, int kRows>
NG_INLINE void AddPairOfInputs(const RowsOfInputs& x, int pair, __m512i weights, V (&sums)[kRows]) {
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    int32_t two = 0;
    std::memcpy(&two, x.x + r * x.stride + pair * 4, sizeof(two));
    sums[r].v = _mm512_dpbf16_ps(sums[r].v, reinterpret_cast<__m512bh>(weights),
                                 reinterpret_cast<__m512bh>(_mm512_set1_epi32(two)));
  }
}

// E4M3.
template <class C>
struct Bf16Bytes {
  using V = typename C::V;
  using Unpacked = Bf16DotWeights<V>;
  static constexpr int kLines = 4;
  static constexpr int64_t kInputBytes = 16 * sizeof(uint16_t);

  template <int kRows>
  static NG_INLINE void Add(const CodesOf16& codes, const RowsOfInputs& x, V (&sums)[kRows]) {
#pragma GCC unroll 4
    for (int i = 0; i < kLines; ++i) {
      __m512i first, second;
      C::Pairs(codes.lines + i * 64, &first, &second);
      AddPairOfInputs(x, 2 * i, first, sums);
      AddPairOfInputs(x, 2 * i + 1, second, sums);
    }
  }
  static NG_INLINE void Unpack(const CodesOf16& codes, std::byte* out) {
    for (int i = 0; i < kLines; ++i, out += 128) {
      __m512i first, second;
      C::Pairs(codes.lines + i * 64, &first, &second);
      _mm512_storeu_si512(out, first);
      _mm512_storeu_si512(out + 64, second);
    }
  }
};

// NVFP4: the product of a value and its scale has 6 bits.
template <class C>
struct Bf16Nibbles {
  using V = typename C::V;
  using Floats = NibbleCodes<C, true>;
  using Unpacked = Bf16DotWeights<V>;
  static constexpr int kLines = Floats::kLines;
  static constexpr int64_t kInputBytes = 16 * sizeof(uint16_t);

  template <int kPair>
  static NG_INLINE __m512i Pair(const CodesOf16& codes, V scale) {
    const V even = Floats::template Weight<2 * kPair>(codes, scale);
    const V odd = Floats::template Weight<2 * kPair + 1>(codes, scale);
    return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even.v), 16),
                           _mm512_castps_si512(odd.v));
  }
  template <int kPair, int kRows>
  static NG_INLINE void AddFrom(const CodesOf16& codes, V scale, const RowsOfInputs& x,
                                V (&sums)[kRows]) {
    if constexpr (kPair < 8) {
      AddPairOfInputs(x, kPair, Pair<kPair>(codes, scale), sums);
      AddFrom<kPair + 1>(codes, scale, x, sums);
    }
  }
  template <int kPair>
  static NG_INLINE void UnpackFrom(const CodesOf16& codes, V scale, std::byte* out) {
    if constexpr (kPair < 8) {
      _mm512_storeu_si512(out + kPair * 64, Pair<kPair>(codes, scale));
      UnpackFrom<kPair + 1>(codes, scale, out);
    }
  }
  template <int kRows>
  static NG_INLINE void Add(const CodesOf16& codes, const RowsOfInputs& x, V (&sums)[kRows]) {
    AddFrom<0>(codes, Floats::ScaleOf(codes), x, sums);
  }
  static NG_INLINE void Unpack(const CodesOf16& codes, std::byte* out) {
    UnpackFrom<0>(codes, Floats::ScaleOf(codes), out);
  }
};

}  // namespace ng
