// How each weight type is multiplied: what a matmul tile does in one step over k. Included by
// kernels-inl.h, once per level.
//
// A weights class W says how many inputs a step takes (kStep), how many bytes a step is of an input
// row (kInputBytes) and of a packed column block (kWeightBytes), and whether input rows are padded
// to whole steps (then so are packed blocks); Step<rows, blocks> adds one step to the tile's sums,
// and Tail the part of one that is left where input rows are not padded.

#include "core/kernels/dot16.h"
#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

namespace ng {

// ---- Multiply-adds in f32: each weight is widened and multiplied by one broadcast input. ----

// A pair is two neighbouring k of one column block: 32 elements.
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
  static NG_INLINE void Step(const std::byte* x, int64_t x_stride, const std::byte* w,
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

// ---- Integer dot products of 32 inputs, scaled and added in f32. ----

// Rounds a row to QuantizedInput blocks; `zero` is what the weights are stored above.
template <class D, int kZero>
void QuantizeRow(const float* x, int64_t k, std::byte* row) {
  using V = typename D::V;
  auto* block = reinterpret_cast<QuantizedInput*>(row);
  for (int64_t i = 0; i < k; i += kQuantBlock, ++block) {
    const auto n = static_cast<int>(k - i < kQuantBlock ? k - i : kQuantBlock);
    const V a = n < 16 ? V::LoadFirst(x + i, n) : V::Load(x + i);
    const V b = n < 32 ? V::LoadFirst(x + i + 16, n < 16 ? 0 : n - 16) : V::Load(x + i + 16);
    const V zero = V::Set(0.0F);
    const float max = V::Max(V::Max(a, V::Sub(zero, a)), V::Max(b, V::Sub(zero, b))).MaxLane();
    // NaN when anything is NaN or infinite, else 0: max alone may miss a NaN.
    const float fault = V::MulAdd(a, zero, V::Mul(b, zero)).Sum();
    block->scale = max / 127.0F + fault;
    const V inverse = V::Set(fault == 0.0F && max > 0.0F ? 127.0F / max : 0.0F);
    const bool usable = fault == 0.0F;
    const V limit = V::Set(127.0F);  // 127 / max may round up, or overflow for the smallest max
    const V qa =
        usable ? V::Max(V::Min(V::Round(V::Mul(a, inverse)), limit), V::Sub(zero, limit)) : zero;
    const V qb =
        usable ? V::Max(V::Min(V::Round(V::Mul(b, inverse)), limit), V::Sub(zero, limit)) : zero;
    D::StoreBytes(qa, block->q);
    D::StoreBytes(qb, block->q + 16);
    block->correction = -kZero * static_cast<int32_t>(V::Add(qa, qb).Sum());
  }
}

template <class D, int kBits>
struct ByteWeights {
  using V = typename D::V;
  using Lanes = V;
  static constexpr WeightType kType = kBits == 8 ? WeightType::kInt8 : WeightType::kInt4;
  static constexpr InputType kInput = InputType::kInt8;
  static constexpr int64_t kStep = kQuantBlock;
  static constexpr int64_t kInputBytes = sizeof(QuantizedInput);
  static constexpr int64_t kQuantBytes = 16 * kQuantBlock * kBits / 8;
  static constexpr int64_t kWeightBytes = kQuantBytes + 16 * 2;  // and 16 scales
  static constexpr bool kPaddedInput = true;
  static constexpr auto kPrepare = QuantizeRow < D, kBits == 8 ? 128 : 8 > ;

  template <int kRows, int kBlocks>
  static NG_INLINE void Step(const std::byte* x, int64_t x_stride, const std::byte* w,
                             int64_t block_stride, V (&acc)[kRows][kBlocks]) {
    const auto input = [&](int r) {
      return reinterpret_cast<const QuantizedInput*>(x + r * x_stride);
    };
    typename D::template Sum<kBits> sums[kRows][kBlocks];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < kBlocks; ++c) sums[r][c].Clear();
    }
    constexpr int kWords = static_cast<int>(kQuantBytes / 64);  // loads of a column block
#pragma GCC unroll 16
    for (int i = 0; i < kWords; ++i) {
      typename D::Bytes bytes[kBlocks];
#pragma GCC unroll 16
      for (int c = 0; c < kBlocks; ++c) bytes[c] = D::Load(w + c * block_stride + i * 64);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (int c = 0; c < kBlocks; ++c) {
          if constexpr (kBits == 8) {
            sums[r][c].Add(bytes[c], input(r)->q + 4 * i);
          } else {
            sums[r][c].Add(D::Low(bytes[c]), input(r)->q + 8 * i);
            sums[r][c].Add(D::High(bytes[c]), input(r)->q + 8 * i + 4);
          }
        }
      }
    }
    V scales[kBlocks];
#pragma GCC unroll 16
    for (int c = 0; c < kBlocks; ++c) {
      scales[c] = V::LoadF16(reinterpret_cast<const uint16_t*>(w + c * block_stride + kQuantBytes));
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const V scale = V::Set(input(r)->scale);
#pragma GCC unroll 16
      for (int c = 0; c < kBlocks; ++c) {
        acc[r][c] =
            V::MulAdd(V::Mul(scales[c], scale), sums[r][c].Finish(input(r)->correction), acc[r][c]);
      }
    }
  }
};

}  // namespace ng
