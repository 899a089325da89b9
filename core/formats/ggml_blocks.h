// The blocks of GGUF's quantised tensors: 32 or 256 values with their scales.
// Format: the block structs of ggml-common.h.
#ifndef NG_CORE_FORMATS_GGML_BLOCKS_H_
#define NG_CORE_FORMATS_GGML_BLOCKS_H_

#include <cstddef>
#include <span>

#include "core/formats/tensor_source.h"
#include "core/kernels/weight_type.h"

namespace ng {

// Whether a tensor of this type consists of such blocks. All functions below REQUIRE it.
bool IsBlockType(DType dtype);

// The value grid of the type; a block is a span of it.
WeightType BlockGrid(DType dtype);

// Turns blocks into spans of the type's grid, one after the other. Returns whether all values are
// finite.
bool ReadBlocks(DType dtype, const std::byte* blocks, std::span<QuantSpan> spans);

// The values of whole blocks as f32, computed as ggml does: scales in f32, then one multiplication,
// and one subtraction or addition where the type has minima.
// REQUIRES: out.size() is a multiple of DTypeBlock(dtype), and `data` has the blocks of that many
// values.
void DequantizeBlocks(DType dtype, const std::byte* data, std::span<float> out);

}  // namespace ng

#endif  // NG_CORE_FORMATS_GGML_BLOCKS_H_
