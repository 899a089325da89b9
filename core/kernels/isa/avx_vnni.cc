// The kernels for AVX2, FMA, F16C and AVX-VNNI: dot products of bytes in one instruction.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/kernels/dot16.h"
#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

NG_BEGIN_TARGET_AVX_VNNI
#include "core/kernels/kernels-inl.h"

namespace ng {
namespace {

struct Level {
  using Dot = avx_vnni::Dot16;
  // 8 sums and 8 of integers. That is one register too many for each that a step needs, but the
  // sums wait in memory until a group ends.
  static constexpr int kByteRows = 4;
  static constexpr int kNibbleRows = 4;
  static constexpr int kByteBlocks = 1;
  static constexpr int kPackedTiles = 12;
};

}  // namespace

template <>
const KernelTable& KernelTable::At<IsaLevel::kAvxVnni>() {
  static const KernelTable kTable =
      WithGridMatmuls<Level>(IsaLevel::kAvxVnni, KernelTable::At<IsaLevel::kAvx2>());
  return kTable;
}

}  // namespace ng
NG_END_TARGET
