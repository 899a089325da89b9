// The kernels for AVX-512 F, BW, DQ, VL, VNNI and BF16: dot products of bf16 pairs too.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/kernels/dot16.h"
#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

NG_BEGIN_TARGET_AVX512_BF16
#include "core/kernels/bf16_dot-inl.h"
#include "core/kernels/kernels-inl.h"

namespace ng {
namespace {

struct Level {
  using V = avx512::Vec16;
  using Dot = avx512_vnni::Dot16;
  using Bf16 = Bf16DotWeights<V>;
  // 24 sums, 4 registers of weights, 1 of input; bytes: 12 sums and 12 of integers, 2 of weights.
  static constexpr int kRows = 6;
  static constexpr int kBlocks = 4;
  static constexpr int kByteRows = 6;
  static constexpr int kNibbleRows = 6;
  static constexpr int kByteBlocks = 2;
  static constexpr int kBarsAtATime = 8;
};

}  // namespace

const KernelTable& Avx512Bf16Kernels() {
  static constexpr KernelTable kTable = MakeKernelTable<Level>(IsaLevel::kAvx512Bf16);
  return kTable;
}

}  // namespace ng
NG_END_TARGET
