// The kernels for AVX2, FMA and F16C: 16 registers of 8 lanes.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/kernels/code_kernels.h"
#include "core/kernels/dot16.h"
#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

NG_BEGIN_TARGET_AVX2
#include "core/kernels/kernels-inl.h"

namespace ng {
namespace {

struct Level {
  using V = avx2::Vec16;
  using Dot = avx2::Dot16;
  // 12 sums, 2 registers of weights, 1 of input; bytes: 4 sums and 8 of 16 bits, 4 of weights.
  static constexpr int kRows = 6;
  static constexpr int kBlocks = 1;
  static constexpr int kByteRows = 3;
  static constexpr int kNibbleRows = 6;
  static constexpr int kByteBlocks = 1;
  static constexpr int kPackedTiles = 6;
  static constexpr int kBarsAtATime = 4;
};

}  // namespace

template <>
const KernelTable& KernelTable::At<IsaLevel::kAvx2>() {
  static const KernelTable kTable = [] {
    KernelTable table = MakeKernelTable<Level>(IsaLevel::kAvx2);
    SetCodeKernels<IsaLevel::kAvx2>(table);
    return table;
  }();
  return kTable;
}

}  // namespace ng
NG_END_TARGET
