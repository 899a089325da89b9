// The blocks that GGUF's quantised tensors are made of: 32 or 256 values behind their scales.
// Format: the block structs of ggml-common.h.
#ifndef NG_CORE_FORMATS_GGML_BLOCKS_H_
#define NG_CORE_FORMATS_GGML_BLOCKS_H_

#include <cstddef>
#include <span>

#include "core/formats/tensor_source.h"

namespace ng {

// The values of whole blocks as f32, computed as ggml does: scales in f32, then one multiplication,
// and one subtraction or addition where the type has minima.
// REQUIRES: dtype is one of kQ40 to kQ6K; out.size() is a multiple of DTypeBlock(dtype), and the
// blocks of so many values are there.
void DequantizeBlocks(DType dtype, const std::byte* data, std::span<float> out);

}  // namespace ng

#endif  // NG_CORE_FORMATS_GGML_BLOCKS_H_
