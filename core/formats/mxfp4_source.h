// MXFP4 in safetensors: a tensor as two, its values in 4 bits and a power of two for each 32.
// Format: the OCP microscaling formats (MX) specification, as transformers stores it.
#ifndef NG_CORE_FORMATS_MXFP4_SOURCE_H_
#define NG_CORE_FORMATS_MXFP4_SOURCE_H_

#include <memory>

#include "core/formats/tensor_source.h"
#include "ng/status.h"

namespace ng {

// The tensors of `source`, in which each pair of U8 tensors "x_blocks" [..., n, 16] and "x_scales"
// [..., n] is one of MXFP4, "x_blocks" [..., 32 n], in blocks as GGUF has them. Errors:
// ModelFileError naming the tensor, where one of a pair is missing or of another shape.
absl::StatusOr<std::unique_ptr<TensorSource>> MergeMxfp4(std::unique_ptr<TensorSource> source);

}  // namespace ng

#endif  // NG_CORE_FORMATS_MXFP4_SOURCE_H_
