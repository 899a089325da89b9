// f32 onto the grids of int8 and int4.
#ifndef NG_CORE_KERNELS_QUANTIZE_H_
#define NG_CORE_KERNELS_QUANTIZE_H_

#include "core/kernels/weight_type.h"

namespace ng {

// The int8 block that is nearest to x[32]; d is max |x| / 127.
QuantSpan QuantizeInt8(const float* x);

// An int4 block that is near x[32]. It begins with the d that puts the largest magnitude at -8,
// searches for a better d by least squares, and keeps the one with the smallest squared error.
QuantSpan QuantizeInt4(const float* x);

}  // namespace ng

#endif  // NG_CORE_KERNELS_QUANTIZE_H_
