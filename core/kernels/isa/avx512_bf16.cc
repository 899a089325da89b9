// The kernels for AVX-512 F, BW, DQ, VL, VNNI and BF16: 32 registers of 16 lanes.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

NG_BEGIN_TARGET_AVX512_BF16
#include "core/kernels/kernels-inl.h"

namespace ng {

const KernelTable& Avx512Bf16Kernels() {
  // 6 rows x 4 blocks: 24 sums, 4 registers of weights, 1 of input.
  static constexpr KernelTable kTable =
      MakeKernelTable<avx512::Vec16, 6, 4, 2>(IsaLevel::kAvx512Bf16);
  return kTable;
}

}  // namespace ng
NG_END_TARGET
