// Writes tensors as a safetensors file, which other programs read: captures, test data.
#ifndef NG_SAFETENSORS_H_
#define NG_SAFETENSORS_H_

#include <atomic>
#include <cstdint>
#include <map>
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

struct SafetensorsOptions {
  std::map<std::string, std::string> metadata = {};  // empty: the file has none
  const std::atomic<bool>* stop = nullptr;           // borrowed; may be null
};

// Writes the file whole or not at all, as with AtomicFileWriter (ng/files.h). The names must
// differ, each tensor must have as many elements as its shape says, and names and metadata must be
// valid UTF-8. Errors: OutputError, InterruptedError.
absl::Status WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                              const SafetensorsOptions& options = {});

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_SAFETENSORS_H_
