// f32 onto the grids of int8 and int4.
#ifndef NG_CORE_KERNELS_QUANTIZE_H_
#define NG_CORE_KERNELS_QUANTIZE_H_

#include "core/kernels/weight_type.h"

namespace ng {

// The block of int8 nearest to x[32]: d is max |x| / 127.
QuantSpan QuantizeInt8(const float* x);

// A near block of int4: from the d that puts the largest magnitude at -8, better ones are sought by
// least squares, and the one with the smallest squared error is kept.
QuantSpan QuantizeInt4(const float* x);

}  // namespace ng

#endif  // NG_CORE_KERNELS_QUANTIZE_H_
