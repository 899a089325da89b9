// safetensors: an 8-byte little-endian header length, a JSON header, then the data.
// Format: the safetensors README. Files are accepted and refused as by its reference reader.
#ifndef NG_CORE_FORMATS_SAFETENSORS_H_
#define NG_CORE_FORMATS_SAFETENSORS_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/formats/tensor_source.h"
#include "ng/status.h"

namespace ng {

// Opens one .safetensors file. Errors: ModelFileError naming the file, the tensor, the value found
// and the value allowed.
absl::StatusOr<std::unique_ptr<TensorSource>> OpenSafetensors(const std::string& path);

// One f32 tensor to be written.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> data;
};

// Writes the file whole or not at all, with AtomicFileWriter. Errors: OutputError,
// InterruptedError.
absl::Status WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                              const std::atomic<bool>* stop = nullptr);

}  // namespace ng

#endif  // NG_CORE_FORMATS_SAFETENSORS_H_
