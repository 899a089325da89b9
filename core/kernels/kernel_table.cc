#include "core/kernels/kernel_table.h"

namespace ng {

const KernelTable& Kernels(IsaLevel level) {
  switch (level) {
    case IsaLevel::kScalar:
      break;
    case IsaLevel::kAvx2:
      return Avx2Kernels();
    case IsaLevel::kAvx512:
      return Avx512Kernels();
  }
  return ScalarKernels();
}

}  // namespace ng
