// The kernels for AVX-512 F, BW, DQ, VL, VNNI and BF16 of types whose codes stand for floats.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/kernels/code_kernels.h"
#include "core/kernels/codes16.h"
#include "core/kernels/dot16.h"
#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

NG_BEGIN_TARGET_AVX512_BF16
#include "core/kernels/bf16_dot-inl.h"
// It uses what is above.
#include "core/kernels/bf16_codes-inl.h"

namespace ng {
namespace {

struct Level {
  using Codes = avx512_bf16::Codes16;
  // 12 sums and as many of a run, 4 registers of weights, 1 of input.
  static constexpr int kRows = 3;
  static constexpr int kFewRows = 4;
  static constexpr int kBlocks = 4;
};

}  // namespace

template <>
void SetCodeKernels<IsaLevel::kAvx512Bf16>(KernelTable& table) {
  SetCodeMatmuls<Level, Bf16Bytes<Level::Codes>, WeightType::kE4m3, WeightType::kE4m3Span128>(
      table);
  SetCodeMatmuls<Level, NibbleCodes<Bf16Products<avx512::Codes16>>, WeightType::kNvfp4>(table);
  using V = Level::Codes::V;
  SetCodeMatmuls<Level, NibbleCodes<Bf16LookUps<V, WeightType::kNf4>>, WeightType::kNf4>(table);
  SetCodeMatmuls<Level, NibbleCodes<Bf16LookUps<V, WeightType::kFp4>>, WeightType::kFp4>(table);
}

}  // namespace ng
NG_END_TARGET
