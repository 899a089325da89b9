// The kernels for AVX-512 F, BW, DQ, VL, VNNI and BF16: dot products of bf16 pairs too.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/kernels/code_kernels.h"
#include "core/kernels/dot16.h"
#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

NG_BEGIN_TARGET_AVX512_BF16
#include "core/kernels/bf16_dot-inl.h"
#include "core/kernels/kernels-inl.h"

namespace ng {
namespace {

struct Level {
  // 24 sums, 4 registers of weights, 1 of input.
  static constexpr int kRows = 6;
  static constexpr int kBlocks = 4;
};

}  // namespace

template <>
const KernelTable& KernelTable::At<IsaLevel::kAvx512Bf16>() {
  static const KernelTable kTable = [] {
    KernelTable table = KernelTable::At<IsaLevel::kAvx512Vnni>();
    table.isa = IsaLevel::kAvx512Bf16;
    SetMatmuls<Level, Bf16DotWeights<avx512::Vec16>>(table);
    SetCodeKernels<IsaLevel::kAvx512Bf16>(table);
    return table;
  }();
  return kTable;
}

}  // namespace ng
NG_END_TARGET
