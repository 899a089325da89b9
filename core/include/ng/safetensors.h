// Writes tensors as a safetensors file, which other programs read: captures, test data.
#ifndef NG_SAFETENSORS_H_
#define NG_SAFETENSORS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

// One f32 tensor to be written.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> data;
};

// Writes the file whole or not at all, as with AtomicFileWriter (ng/files.h). The
// names must differ, and each tensor must have as many elements as its shape says. Errors:
// OutputError, InterruptedError.
absl::Status WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                              const std::atomic<bool>* stop = nullptr);

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_SAFETENSORS_H_
