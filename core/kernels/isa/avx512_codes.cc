// The kernels for AVX-512 F, BW, DQ and VL of types whose codes stand for floats.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/kernels/code_kernels.h"
#include "core/kernels/codes16.h"
#include "core/kernels/dot16.h"
#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

NG_BEGIN_TARGET_AVX512
#include "core/kernels/float_codes-inl.h"

namespace ng {
namespace {

struct Level {
  using Codes = avx512::Codes16;
  // 24 sums, 4 registers of weights, 1 of input.
  static constexpr int kRows = 6;
  static constexpr int kFewRows = 4;
  static constexpr int kBlocks = 4;
};

}  // namespace

template <>
void SetCodeKernels<IsaLevel::kAvx512>(KernelTable& table) {
  SetCodeMatmuls<Level>(table);
}

}  // namespace ng
NG_END_TARGET
