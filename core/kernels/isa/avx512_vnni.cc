// The kernels for AVX-512 F, BW, DQ, VL and VNNI: dot products of bytes in one instruction.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/kernels/dot16.h"
#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

NG_BEGIN_TARGET_AVX512_VNNI
#include "core/kernels/kernels-inl.h"

namespace ng {
namespace {

struct Level {
  using Dot = avx512_vnni::Dot16;
  // 12 sums and 12 of integers, 2 registers of weights.
  static constexpr int kByteRows = 6;
  static constexpr int kNibbleRows = 6;
  static constexpr int kByteBlocks = 2;
  static constexpr int kPackedTiles = 12;
};

}  // namespace

template <>
const KernelTable& KernelTable::At<IsaLevel::kAvx512Vnni>() {
  static const KernelTable kTable =
      WithGridMatmuls<Level>(IsaLevel::kAvx512Vnni, KernelTable::At<IsaLevel::kAvx512>());
  return kTable;
}

}  // namespace ng
NG_END_TARGET
