// Blocks of 32 weights on the value grids of Q8_0 and Q4_0: an f16 scale and small integers.
#ifndef NG_CORE_KERNELS_QUANTIZE_H_
#define NG_CORE_KERNELS_QUANTIZE_H_

#include <cstddef>
#include <cstdint>

#include "core/kernels/kernel_table.h"

namespace ng {

struct Quants {
  uint16_t scale;          // f16
  uint8_t q[kQuantBlock];  // int8: value / scale + 128; int4: value / scale + 8
};

// The block nearest to x[32]: the scale is max |x| / 127.
Quants QuantizeInt8(const float* x);

// A near block: from the scale that puts the largest magnitude at -8, better ones are sought by
// least squares, and the one with the smallest squared error is kept.
Quants QuantizeInt4(const float* x);

// The same values from a block as GGUF stores it, 34 bytes of Q8_0 or 18 of Q4_0.
Quants Int8FromQ80(const std::byte* block);
Quants Int8FromQ40(const std::byte* block);
Quants Int4FromQ40(const std::byte* block);

}  // namespace ng

#endif  // NG_CORE_KERNELS_QUANTIZE_H_
