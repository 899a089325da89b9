// f32 onto the grids of int8 and int4, four blocks at a time.
#ifndef NG_CORE_KERNELS_QUANTIZE_H_
#define NG_CORE_KERNELS_QUANTIZE_H_

#include <array>

#include "core/kernels/weight_type.h"

namespace ng {

using FourBlocks = std::array<const float*, 4>;  // each [32]
using FourSpans = std::array<QuantSpan, 4>;

// The int8 blocks that are nearest; d is a block's max |x| / 127.
FourSpans QuantizeInt8(const FourBlocks& blocks);

// Int4 blocks that are near. Each begins with the d that puts its largest magnitude at -8, searches
// for a better d by least squares, and keeps the one with the smallest squared error.
FourSpans QuantizeInt4(const FourBlocks& blocks);

}  // namespace ng

#endif  // NG_CORE_KERNELS_QUANTIZE_H_
