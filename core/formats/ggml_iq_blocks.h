// The blocks of GGUF's types of 1 to 3 bits, each as a span of its value grid.
// Format: the block structs of ggml-common.h; the functions of ggml-quants.c that read them.
#ifndef NG_CORE_FORMATS_GGML_IQ_BLOCKS_H_
#define NG_CORE_FORMATS_GGML_IQ_BLOCKS_H_

#include <cstdint>

#include "core/kernels/weight_type.h"

namespace ng {

// Reads one block of 256 values. The grids: kIq2, kIq3Xxs, kIq3S, kIq1, kTernary.
void ReadIq2Xxs(const uint8_t* block, QuantSpan* span);
void ReadIq2Xs(const uint8_t* block, QuantSpan* span);
void ReadIq2S(const uint8_t* block, QuantSpan* span);
void ReadIq3Xxs(const uint8_t* block, QuantSpan* span);
void ReadIq3S(const uint8_t* block, QuantSpan* span);
void ReadIq1S(const uint8_t* block, QuantSpan* span);
void ReadIq1M(const uint8_t* block, QuantSpan* span);
void ReadTq1(const uint8_t* block, QuantSpan* span);
void ReadTq2(const uint8_t* block, QuantSpan* span);

}  // namespace ng

#endif  // NG_CORE_FORMATS_GGML_IQ_BLOCKS_H_
