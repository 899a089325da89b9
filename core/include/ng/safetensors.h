// Tensors in safetensors files, which other programs read and write too: captures, vectors, test
// data.
#ifndef NG_SAFETENSORS_H_
#define NG_SAFETENSORS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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

// A tensor of a file.
struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t n_elements = 0;  // the product of shape
};

// Reads the tensors of a file as f32: those that it has as F32, F16 or BF16. Opening it reads and
// checks the header only. One thread at a time.
class SafetensorsReader {
 public:
  // Errors: ModelFileError naming the file, the tensor, the value found and the value allowed.
  static absl::StatusOr<SafetensorsReader> Open(const std::string& path);
  SafetensorsReader(SafetensorsReader&& other) noexcept;
  SafetensorsReader& operator=(SafetensorsReader&& other) noexcept;
  ~SafetensorsReader();

  const std::string& path() const;
  const std::vector<StoredTensor>& tensors() const;            // by name
  const std::map<std::string, std::string>& metadata() const;  // empty where the file has none
  // The tensor of this name, or null.
  const StoredTensor* Find(std::string_view name) const;

  // Errors: ModelFileError when there is no such tensor (with the nearest name), it has elements of
  // another type, or the file cannot be read.
  absl::StatusOr<NamedTensor> Read(std::string_view name) const;
  // The elements of a tensor of this file from `first` on. REQUIRES: first + out.size() <=
  // n_elements.
  absl::Status ReadAt(const StoredTensor& tensor, int64_t first, std::span<float> out) const;

 private:
  struct __attribute__((visibility("hidden"))) State;
  explicit SafetensorsReader(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_SAFETENSORS_H_
