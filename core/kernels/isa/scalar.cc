// The kernels in plain C++: the twin against which the other levels are tested.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/kernels/kernel_table.h"
#include "core/kernels/kernels-inl.h"
#include "ng/vec16.h"

namespace ng {

const KernelTable& ScalarKernels() {
  static constexpr KernelTable kTable = MakeKernelTable<scalar::Vec16, 3, 1, 1>(IsaLevel::kScalar);
  return kTable;
}

}  // namespace ng
