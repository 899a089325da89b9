// The tensors of one file, whatever its format: knows where the bytes of each are, and reads them
// on request.
#ifndef NG_CORE_FORMATS_TENSOR_FILE_H_
#define NG_CORE_FORMATS_TENSOR_FILE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/file.h"
#include "core/formats/tensor_source.h"

namespace ng {

struct PlacedTensor {
  TensorInfo info;
  int64_t begin = 0;  // the offset of its bytes in the file
};

// REQUIRES: no name occurs twice; all bytes were in the file when it was opened.
std::unique_ptr<TensorSource> MakeTensorFile(InputFile file, std::vector<PlacedTensor> tensors);

}  // namespace ng

#endif  // NG_CORE_FORMATS_TENSOR_FILE_H_
