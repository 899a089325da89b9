// safetensors: an 8-byte little-endian header length, a JSON header, then the data.
// Format: the safetensors README. Files are accepted and refused as by its reference reader.
#ifndef NG_CORE_FORMATS_SAFETENSORS_H_
#define NG_CORE_FORMATS_SAFETENSORS_H_

#include <map>
#include <memory>
#include <string>

#include "core/formats/tensor_source.h"
#include "ng/safetensors.h"
#include "ng/status.h"

namespace ng {

// Opens one .safetensors file; `metadata`, if not null, gets what it says beside the tensors.
// Errors: ModelFileError naming the file, the tensor, the value found and the value allowed.
absl::StatusOr<std::unique_ptr<TensorSource>> OpenSafetensors(
    const std::string& path, std::map<std::string, std::string>* metadata = nullptr);

}  // namespace ng

#endif  // NG_CORE_FORMATS_SAFETENSORS_H_
