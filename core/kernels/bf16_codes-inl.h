// Codes of floats as numbers of bf16, for levels with its dot product (bf16_dot-inl.h). Included
// after that file.

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
  static constexpr float kUnit = 1.0F;

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

// A pair of inputs as numbers of bf16.
template <class Lanes>
struct Bf16Pairs16 {
  using V = Lanes;
  using Unpacked = Bf16DotWeights<V>;
  static constexpr int kSteps = 8;

  template <int kRows>
  static NG_INLINE void Add(const RowsOfInputs& x, int pair, __m512i weights, V (&sums)[kRows]) {
    AddPairOfInputs(x, pair, weights, sums);
  }
  static NG_INLINE void Store(__m512i weights, std::byte* out) {
    _mm512_storeu_si512(out, weights);
  }
};

// NVFP4: the product of a value and its scale has 6 bits.
template <class C>
struct Bf16Products : Bf16Pairs16<typename C::V> {
  using V = typename C::V;
  using Floats = F32Nibbles<C, true>;
  static constexpr float kUnit = 1.0F;

  static NG_INLINE V Start(const CodesOf16& codes) { return Floats::Start(codes); }
  template <int kPair>
  static NG_INLINE __m512i Step(const CodesOf16& codes, V scale) {
    const V even = Floats::template Step<2 * kPair>(codes, scale);
    const V odd = Floats::template Step<2 * kPair + 1>(codes, scale);
    return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even.v), 16),
                           _mm512_castps_si512(odd.v));
  }
};

// The values of a type times kTimes as bf16. Those of FP4 are then exact. Those of NF4 are the
// nearest; of all factors this one has the least mean square of their errors, whose root is a
// 1600th of that of the values. No value is more than a 519th off. Inputs lose as much where they
// are rounded to bf16.
template <WeightType kType>
struct Bf16Values;
template <>
struct Bf16Values<WeightType::kFp4> {
  static constexpr float kTimes = 12.0F;
  static constexpr float kValues[16] = {0.0F,  0.0625F,  8.0F,  12.0F,  4.0F,  6.0F,  2.0F,  3.0F,
                                        -0.0F, -0.0625F, -8.0F, -12.0F, -4.0F, -6.0F, -2.0F, -3.0F};
};
template <>
struct Bf16Values<WeightType::kNf4> {
  static constexpr float kTimes = 1.437006F;
  static constexpr float kValues[16] = {-1.4375F,      -1.0F,         -0.75390625F,  -0.56640625F,
                                        -0.408203125F, -0.265625F,    -0.130859375F, 0.0F,
                                        0.1142578125F, 0.2314453125F, 0.353515625F,  0.486328125F,
                                        0.6328125F,    0.80859375F,   1.0390625F,    1.4375F};
};

// NF4 and FP4.
template <class Lanes, WeightType kType>
struct Bf16LookUps : Bf16Pairs16<Lanes> {
  using Values = Bf16Values<kType>;
  static constexpr float kUnit = 1.0F / Values::kTimes;
  // Twice, so that the bit above a code does not matter.
  alignas(64) static constexpr std::array<uint16_t, 32> kBits = [] {
    std::array<uint16_t, 32> bits = {};
    for (size_t i = 0; i < bits.size(); ++i) {
      bits[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(Values::kValues[i % 16]) >> 16);
    }
    return bits;
  }();

  static NG_INLINE __m512i Start(const CodesOf16& /*codes*/) {
    return _mm512_load_si512(kBits.data());
  }
  template <int kPair>
  static NG_INLINE __m512i Step(const CodesOf16& codes, __m512i table) {
    __m512i line = _mm512_loadu_si512(codes.lines + kPair / 4 * 64);
    if constexpr (kPair % 4 >= 2) line = _mm512_srli_epi16(line, 4);
    constexpr int kFirst = kPair % 2 * 2;  // the byte of the first input, of 4 of a column
    constexpr int kBytes = kFirst | (kFirst + 1) << 16;
    const __m512i order = _mm512_broadcast_i32x4(
        _mm_setr_epi32(kBytes, kBytes + 0x040004, kBytes + 0x080008, kBytes + 0x0C000C));
    return _mm512_permutexvar_epi16(_mm512_shuffle_epi8(line, order), table);
  }
};

}  // namespace ng
