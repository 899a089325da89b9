#include "core/kernels/kernel_table.h"

namespace ng {

const KernelTable& Kernels(IsaLevel level) { return KernelsFor<KernelTable>(level); }

}  // namespace ng
