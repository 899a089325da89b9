// bf16 by the dot product of bf16 pairs, f32 sums (flash_lanes-inl.h says what a lane struct is).
// Queries and weights are rounded to bf16. Included between the level's target macros. No include
// guard.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ng/vec16.h"

namespace ng {

struct Bf16DotLanes : FloatSums<avx512::Vec16> {
  using V = avx512::Vec16;
  using Element = uint16_t;
  using Probabilities = Bf16DotLanes;
  static constexpr int kStep = 2;
  static constexpr int kAccumulators = 1;
  using Columns = __m512bh;
  using Factor = __m512bh;
  static NG_INLINE __m512bh Load(const std::byte* p) {
    auto columns = reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
    asm("" : "+v"(columns));  // GCC would load again for every row
    return columns;
  }
  static NG_INLINE __m512bh LoadFirst(const std::byte* p, int n) {
    return reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi32(V::First(n), p));
  }
  static NG_INLINE __m512bh KeepFirstElement(__m512bh columns) {
    return reinterpret_cast<__m512bh>(
        _mm512_and_si512(reinterpret_cast<__m512i>(columns), _mm512_set1_epi32(0xFFFF)));
  }
  static NG_INLINE __m512bh KeepSecondElement(__m512bh columns) {
    return reinterpret_cast<__m512bh>(
        _mm512_andnot_si512(_mm512_set1_epi32(0xFFFF), reinterpret_cast<__m512i>(columns)));
  }
  static NG_INLINE __m512bh LoadFactor(const uint16_t* x) {
    int pair;
    std::memcpy(&pair, x, sizeof(pair));
    return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
  }
  static NG_INLINE void MulAdd(__m512bh x, __m512bh columns, V* sums) {
    sums->v = _mm512_dpbf16_ps(sums->v, x, columns);
  }
  static NG_INLINE V Total(const V* sums) { return *sums; }
  static NG_INLINE V Narrow(V x, uint16_t* to) {
    const auto narrow = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x.v));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow);
    return Widen(to);
  }
  static NG_INLINE V Widen(const uint16_t* from) { return V::LoadBf16(from); }
};

}  // namespace ng
