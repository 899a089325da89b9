// GGUF files made up on the spot, right ones and wrong ones.
#ifndef NG_TESTS_SUPPORT_GGUF_BUILDER_H_
#define NG_TESTS_SUPPORT_GGUF_BUILDER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/gguf.h"

namespace ng::test {

// A number's bytes as a file has them: little-endian, like the machines the tests run on.
template <typename T>
std::string Raw(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
std::string RawText(std::string_view text);  // behind its 64-bit length

class GgufBuilder {
 public:
  uint32_t version = 3;
  int64_t alignment = 32;  // what the data is laid out with; no key says so

  // A value of any type by its bytes.
  GgufBuilder& Value(std::string_view key, GgufType type, std::string_view bytes);
  GgufBuilder& Array(std::string_view key, GgufType type, uint64_t count, std::string_view bytes);
  GgufBuilder& Text(std::string_view key, std::string_view value);
  GgufBuilder& U32(std::string_view key, uint32_t value);
  GgufBuilder& F32(std::string_view key, float value);

  // shape: outermost first. `type` as ggml numbers it. The data takes the next place.
  GgufBuilder& Tensor(std::string_view name, std::span<const int64_t> shape, uint32_t type,
                      std::string_view data);
  // The same with f32 values rounded to F32, F16 or BF16.
  GgufBuilder& Tensor(std::string_view name, std::span<const int64_t> shape, DType dtype,
                      std::span<const float> values);

  std::string Bytes() const;

 private:
  uint64_t n_values_ = 0;
  uint64_t n_tensors_ = 0;
  std::string values_;
  std::string infos_;
  std::string data_;
};

}  // namespace ng::test

#endif  // NG_TESTS_SUPPORT_GGUF_BUILDER_H_
