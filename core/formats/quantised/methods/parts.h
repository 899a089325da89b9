// Matrices that several formats have alike.
#ifndef NG_CORE_FORMATS_QUANTISED_METHODS_PARTS_H_
#define NG_CORE_FORMATS_QUANTISED_METHODS_PARTS_H_

#include <string>

#include "core/formats/quantised/factors.h"
#include "core/formats/quantised/form_finder.h"

namespace ng {

// A tensor in E4M3 times factors. With `sharing.inputs` they are of blocks, else of rows or of all.
absl::Status AddFloat8(FormFinder& finder, const TensorInfo& weight, const TensorInfo& scale,
                       Sharing sharing);

// Values of E2M1, two in a byte, the lower half first, under the name `name`: "packed" [rows,
// inputs / 2]. With a scale in E4M3 for each 16 and a factor of all: multiplied, or divided by it.
struct Float4Parts {
  const TensorInfo* packed = nullptr;
  const TensorInfo* scale = nullptr;
  const TensorInfo* global = nullptr;  // null: there is none
  bool divides = false;
};
absl::Status AddNvfp4(FormFinder& finder, const std::string& name, const Float4Parts& parts);
// The same with a power of two for each 32.
absl::Status AddMxfp4(FormFinder& finder, const std::string& name, const Float4Parts& parts);

}  // namespace ng

#endif  // NG_CORE_FORMATS_QUANTISED_METHODS_PARTS_H_
