// The matmuls of types whose codes stand for floats, of one level each. They are compiled apart
// from the level's other kernels, which take long enough.
#ifndef NG_CORE_KERNELS_CODE_KERNELS_H_
#define NG_CORE_KERNELS_CODE_KERNELS_H_

#include "core/kernels/kernel_table.h"

namespace ng {

// Puts them into the level's table: isa/*_codes.cc.
template <IsaLevel>
void SetCodeKernels(KernelTable& table);
template <>
void SetCodeKernels<IsaLevel::kScalar>(KernelTable& table);
template <>
void SetCodeKernels<IsaLevel::kAvx2>(KernelTable& table);
template <>
void SetCodeKernels<IsaLevel::kAvx512>(KernelTable& table);
template <>
void SetCodeKernels<IsaLevel::kAvx512Bf16>(KernelTable& table);

}  // namespace ng

#endif  // NG_CORE_KERNELS_CODE_KERNELS_H_
