#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "ng/vec16.h"
#include "plugins/attention/flash/capture.h"
#include "plugins/attention/flash/flash_kernel.h"

NG_BEGIN_TARGET_AVX512
#include "plugins/attention/flash/flash_kernel-inl.h"
NG_END_TARGET

namespace ng {

// As many accumulators as registers hold beside a column and a query.
const FlashKernel& Avx512FlashKernel() { return Flash<avx512::Vec16, 6, 4>::kKernel; }

}  // namespace ng
