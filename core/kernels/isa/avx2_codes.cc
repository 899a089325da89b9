// The kernels for AVX2, FMA and F16C of types whose codes stand for floats.
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

NG_BEGIN_TARGET_AVX2
#include "core/kernels/float_codes-inl.h"

namespace ng {
namespace {

struct Level {
  using Codes = avx2::Codes16;
  // 12 sums, 2 registers of weights, 1 of input.
  static constexpr int kRows = 6;
  static constexpr int kFewRows = 4;
  static constexpr int kBlocks = 1;
};

}  // namespace

template <>
void SetCodeKernels<IsaLevel::kAvx2>(KernelTable& table) {
  SetCodeMatmuls<Level>(table);
}

}  // namespace ng
NG_END_TARGET
