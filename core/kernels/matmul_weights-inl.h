// Multiply-adds in f32: each weight is widened and multiplied by one broadcast input. Included by
// kernels-inl.h, once per level.
//
// A weights class W says:
// - how many inputs a step takes (kStep);
// - how many bytes of an input row (kInputBytes) and of a packed column block (kWeightBytes) that
//   is;
// - whether input rows are padded to whole steps (kPaddedInput; then packed blocks are too).
// Step<rows, blocks> adds one of the kParts of a step to the tile's sums. Where input rows are not
// padded, Tail adds the incomplete step at the end.

#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

namespace ng {

// A pair: the elements of one column block for two neighbouring k, 32 elements.
template <class V>
struct F32Pairs {
  static constexpr WeightType kType = WeightType::kF32;
  using Element = float;
  static NG_INLINE V Even(const float* pair) { return V::Load(pair); }
  static NG_INLINE V Odd(const float* pair) { return V::Load(pair + 16); }
};

template <class V>
struct F16Pairs {
  static constexpr WeightType kType = WeightType::kF16;
  using Element = uint16_t;
  static NG_INLINE V Even(const uint16_t* pair) { return V::LoadF16(pair); }
  static NG_INLINE V Odd(const uint16_t* pair) { return V::LoadF16(pair + 16); }
};

template <class V>
struct Bf16Pairs {
  static constexpr WeightType kType = WeightType::kBf16;
  using Element = uint16_t;
  static NG_INLINE V Even(const uint16_t* pair) {
    V even, odd;
    V::LoadBf16Pairs(pair, &even, &odd);
    return even;
  }
  static NG_INLINE V Odd(const uint16_t* pair) {
    V even, odd;
    V::LoadBf16Pairs(pair, &even, &odd);
    return odd;
  }
};

template <class V, class Pairs>
struct MulAddWeights {
  using Lanes = V;
  using Element = typename Pairs::Element;
  static constexpr WeightType kType = Pairs::kType;
  static constexpr InputType kInput = InputType::kF32;
  static constexpr int64_t kStep = 2;
  static constexpr int kParts = 1;
  static constexpr int64_t kInputBytes = 2 * sizeof(float);
  static constexpr int64_t kWeightBytes = 32 * sizeof(Element);
  static constexpr bool kPaddedInput = false;
  static constexpr void (*kPrepare)(const float*, int64_t, std::byte*) = nullptr;

  template <bool kOdd, int kRows, int kBlocks>
  static NG_INLINE void OneInput(const std::byte* x, int64_t x_stride, const std::byte* w,
                                 int64_t block_stride, V (&acc)[kRows][kBlocks]) {
    V weights[kBlocks];
#pragma GCC unroll 16
    for (int c = 0; c < kBlocks; ++c) {
      const auto* pair = reinterpret_cast<const Element*>(w + c * block_stride);
      weights[c] = kOdd ? Pairs::Odd(pair) : Pairs::Even(pair);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const V xr = V::Set(reinterpret_cast<const float*>(x + r * x_stride)[kOdd ? 1 : 0]);
#pragma GCC unroll 16
      for (int c = 0; c < kBlocks; ++c) acc[r][c] = V::MulAdd(xr, weights[c], acc[r][c]);
    }
  }

  template <int kRows, int kBlocks>
  static NG_INLINE void Step(int /*part*/, const std::byte* x, int64_t x_stride, const std::byte* w,
                             int64_t block_stride, V (&acc)[kRows][kBlocks]) {
    OneInput<false>(x, x_stride, w, block_stride, acc);
    OneInput<true>(x, x_stride, w, block_stride, acc);
  }

  template <int kRows, int kBlocks>
  static NG_INLINE void Tail(const std::byte* x, int64_t x_stride, const std::byte* w,
                             int64_t block_stride, V (&acc)[kRows][kBlocks]) {
    OneInput<false>(x, x_stride, w, block_stride, acc);
  }
};

template <class V>
using F32Weights = MulAddWeights<V, F32Pairs<V>>;
template <class V>
using F16Weights = MulAddWeights<V, F16Pairs<V>>;
template <class V>
using Bf16Weights = MulAddWeights<V, Bf16Pairs<V>>;

}  // namespace ng
