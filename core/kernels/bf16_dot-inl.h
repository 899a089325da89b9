// bf16 weights times bf16 inputs by vdpbf16ps, for levels that have it. The instruction adds two
// products to an f32 sum; it takes inputs and results below the normal range as 0.

#include <immintrin.h>

#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

namespace ng {

// Rounds a row to bf16, to nearest even. An odd k is padded with a zero.
template <class V>
void Bf16Row(const float* x, int64_t k, std::byte* row) {
  auto* out = reinterpret_cast<uint16_t*>(row);
  int64_t i = 0;
  for (; i + 16 <= k; i += 16) {
    _mm256_storeu_epi16(out + i, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(V::Load(x + i).v)));
  }
  const auto n = static_cast<int>(k - i);
  if (n == 0) return;
  _mm256_mask_storeu_epi16(out + i, V::First(n + n % 2),
                           reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(V::LoadFirst(x + i, n).v)));
}

template <class V>
struct Bf16DotWeights {
  using Lanes = V;
  static constexpr WeightType kType = WeightType::kBf16;
  static constexpr InputType kInput = InputType::kBf16;
  static constexpr int64_t kStep = 2;
  static constexpr int kParts = 1;
  static constexpr int64_t kInputBytes = 4;
  static constexpr int64_t kWeightBytes = 64;
  static constexpr bool kPaddedInput = true;
  static constexpr auto kPrepare = Bf16Row<V>;

  template <int kRows, int kBlocks>
  static NG_INLINE void Step(int /*part*/, const std::byte* x, int64_t x_stride, const std::byte* w,
                             int64_t block_stride, V (&acc)[kRows][kBlocks]) {
    __m512bh weights[kBlocks];
#pragma GCC unroll 16
    for (int c = 0; c < kBlocks; ++c) {
      weights[c] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(w + c * block_stride));
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      int32_t pair = 0;
      std::memcpy(&pair, x + r * x_stride, sizeof(pair));
      const auto inputs = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
#pragma GCC unroll 16
      for (int c = 0; c < kBlocks; ++c) {
        acc[r][c].v = _mm512_dpbf16_ps(acc[r][c].v, weights[c], inputs);
      }
    }
  }
};

}  // namespace ng
