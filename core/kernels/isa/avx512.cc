// The kernels for AVX-512 F, BW, DQ and VL: 32 registers of 16 lanes.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/kernels/code_kernels.h"
#include "core/kernels/dot16.h"
#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

NG_BEGIN_TARGET_AVX512
#include "core/kernels/kernels-inl.h"

namespace ng {
namespace {

struct Level {
  using V = avx512::Vec16;
  using Dot = avx512::Dot16;
  // 24 sums, 4 registers of weights, 1 of input; bytes: 8 sums and 16 of 16 bits, 4 of weights.
  static constexpr int kRows = 6;
  static constexpr int kBlocks = 4;
  static constexpr int kByteRows = 4;
  static constexpr int kNibbleRows = 4;
  static constexpr int kByteBlocks = 2;
  static constexpr int kPackedTiles = 12;
  static constexpr int kBarsAtATime = 8;
};

}  // namespace

template <>
const KernelTable& KernelTable::At<IsaLevel::kAvx512>() {
  static const KernelTable kTable = [] {
    KernelTable table = MakeKernelTable<Level>(IsaLevel::kAvx512);
    SetCodeKernels<IsaLevel::kAvx512>(table);
    return table;
  }();
  return kTable;
}

}  // namespace ng
NG_END_TARGET
