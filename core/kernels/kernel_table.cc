#include "core/kernels/kernel_table.h"

namespace ng {

const KernelTable& Kernels(IsaLevel level) {
  switch (level) {
    case IsaLevel::kAvx2:
      return Avx2Kernels();
#if !defined(NG_FEW_LEVELS)
    case IsaLevel::kAvxVnni:
      return AvxVnniKernels();
    case IsaLevel::kAvx512:
      return Avx512Kernels();
    case IsaLevel::kAvx512Vnni:
      return Avx512VnniKernels();
    case IsaLevel::kAvx512Bf16:
      return Avx512Bf16Kernels();
#else
    default:
#endif
    case IsaLevel::kScalar:
      break;
  }
  return ScalarKernels();
}

}  // namespace ng
