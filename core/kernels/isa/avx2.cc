// The kernels for AVX2, FMA and F16C: 16 registers of 8 lanes.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

NG_BEGIN_TARGET_AVX2
#include "core/kernels/kernels-inl.h"

namespace ng {

const KernelTable& Avx2Kernels() {
  // 6 rows x 1 block: 12 sums, 2 registers of weights, 1 of input.
  static constexpr KernelTable kTable = MakeKernelTable<avx2::Vec16, 6, 1, 2>(IsaLevel::kAvx2);
  return kTable;
}

}  // namespace ng
NG_END_TARGET
