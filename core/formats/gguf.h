// GGUF: key-values, the tensors' names, shapes and places, then their data; versions 2 and 3,
// little-endian. Format: ggml's docs/gguf.md. Files are accepted and refused as by its reference
// reader: there are no arrays of arrays, and the data of the tensors is in their order, each padded
// to the alignment.
#ifndef NG_CORE_FORMATS_GGUF_H_
#define NG_CORE_FORMATS_GGUF_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/formats/json.h"
#include "core/formats/tensor_source.h"
#include "ng/status.h"

namespace ng {

// The types of values, numbered as in the file.
enum class GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kArray,
  kU64,
  kI64,
  kF64
};

// The key-values of a file. Single values are read like the fields of a JSON object, with the same
// errors; arrays are read by the type of their elements. The object remembers which keys were read,
// so only one thread at a time may use it.
class GgufMetadata {
 public:
  // The values of an array as the file holds them.
  struct Array {
    GgufType type = GgufType::kU8;
    int64_t count = 0;
    std::string bytes;
  };

  explicit GgufMetadata(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // Every key as a field. The field of an array is an object with its "count", so that an error
  // about a single value says what is there; it also has "each" where all elements are the same
  // integer. Borrows the metadata.
  JsonFields fields() const;
  // The fields of an object made from some of them, `prefix` before the name of each. Reading one
  // counts as reading the key of that name. Borrows both.
  JsonFields FieldsOf(const nlohmann::json& object, const std::string& prefix) const;
  // One of fields(), which does not count as reading it. REQUIRES: it is there.
  const nlohmann::json& Field(const std::string& key) const { return values_.at(key); }
  // The keys that begin so.
  std::vector<std::string> KeysWith(std::string_view prefix) const;
  // The keys that say something and that nobody read. Asking for the length of an array does not
  // count as reading it.
  std::vector<std::string> Unread() const;

  // The array with this key. Errors: ModelFileError naming the file and the key, when it is missing
  // or is something else.
  absl::StatusOr<std::vector<std::string>> Texts(std::string_view key) const;
  absl::StatusOr<std::vector<float>> Floats(std::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> Ints(std::string_view key) const;
  // Of bools, or of integers that are not 0 where it is true.
  absl::StatusOr<std::vector<bool>> Switches(std::string_view key) const;

  // Called by the reader of the file. Returns false when the key exists already.
  bool Add(std::string_view key, nlohmann::json value);
  bool Add(std::string_view key, Array array);
  // Removes a key and returns its field, if there was one.
  std::optional<nlohmann::json> Remove(const std::string& key);

 private:
  absl::StatusOr<const Array*> Find(std::string_view key, std::string_view wanted) const;

  std::string path_;
  nlohmann::json values_ = nlohmann::json::object();
  std::map<std::string, Array, std::less<>> arrays_;
  std::shared_ptr<ReadKeys> read_ = std::make_shared<ReadKeys>();
};

struct GgufFile {
  GgufMetadata metadata;
  std::unique_ptr<TensorSource> tensors;
};

// Whether the file is GGUF, by its extension or its first bytes. Errors: ModelFileError when it
// cannot be read.
absl::StatusOr<bool> IsGguf(const InputFile& file);

// What a file calls its model's architecture, "llama", read from its first few key-values; empty
// where it does not say so there, or is no GGUF file.
std::string GgufArchitecture(const std::string& path);

// Opens a file; and where it is the first of several that hold a model ("x-00001-of-00003.gguf"),
// the others beside it: the key-values are those of the first. Memory: the key-values and the
// tensors' names and shapes; the header has at most 100,000,000 bytes. Errors: ModelFileError
// naming the file, the key or tensor, the value found and the value allowed.
absl::StatusOr<GgufFile> OpenGguf(const std::string& path);
absl::StatusOr<GgufFile> ReadGguf(InputFile file);

}  // namespace ng

#endif  // NG_CORE_FORMATS_GGUF_H_
