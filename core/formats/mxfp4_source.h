// MXFP4 in safetensors: a tensor as two, its values in 4 bits and a power of two for each 32.
// Format: the OCP microscaling formats (MX) specification, as transformers stores it.
#ifndef NG_CORE_FORMATS_MXFP4_SOURCE_H_
#define NG_CORE_FORMATS_MXFP4_SOURCE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/formats/tensor_source.h"
#include "ng/status.h"

namespace ng {

// What each of the 16 codes of 4 bits stands for beside a power of two, as BF16.
class Mxfp4Values {
 public:
  explicit Mxfp4Values(std::byte scale);
  uint16_t operator[](size_t code) const { return values_[code]; }

 private:
  std::array<uint16_t, 16> values_;
};

// The tensors of `source`, in which each pair of U8 tensors "x_blocks" [..., n, 16] and "x_scales"
// [..., n] is one of BF16, "x_blocks" [..., 32 n]. BF16 has all their values. Errors:
// ModelFileError naming the tensor, where one of a pair is missing or of another shape.
absl::StatusOr<std::unique_ptr<TensorSource>> MergeMxfp4(std::unique_ptr<TensorSource> source);

}  // namespace ng

#endif  // NG_CORE_FORMATS_MXFP4_SOURCE_H_
