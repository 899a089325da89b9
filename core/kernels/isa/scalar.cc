// The kernels in plain C++: the twin against which the other levels are tested.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/kernels/code_kernels.h"
#include "core/kernels/dot16.h"
#include "core/kernels/kernel_table.h"
#include "core/kernels/kernels-inl.h"
#include "ng/vec16.h"

namespace ng {
namespace {

struct Level {
  using V = scalar::Vec16;
  using Dot = scalar::Dot16;
  static constexpr int kRows = 3;
  static constexpr int kBlocks = 1;
  static constexpr int kByteRows = 3;
  static constexpr int kNibbleRows = 3;
  static constexpr int kByteBlocks = 1;
  static constexpr int kPackedTiles = 0;
  static constexpr int kBarsAtATime = 2;
};

}  // namespace

template <>
const KernelTable& KernelTable::At<IsaLevel::kScalar>() {
  static const KernelTable kTable = [] {
    KernelTable table = MakeKernelTable<Level>(IsaLevel::kScalar);
    SetCodeKernels<IsaLevel::kScalar>(table);
    return table;
  }();
  return kTable;
}

}  // namespace ng
