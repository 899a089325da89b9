#include "tests/support/gguf_builder.h"

#include "absl/strings/str_cat.h"
#include "ng/half.h"

namespace ng::test {
namespace {

std::string Padded(std::string bytes, int64_t alignment) {
  const auto n = static_cast<size_t>(alignment);
  bytes.resize((bytes.size() + n - 1) / n * n);
  return bytes;
}

}  // namespace

std::string RawText(std::string_view text) { return Raw(uint64_t{text.size()}).append(text); }

GgufBuilder& GgufBuilder::Value(std::string_view key, GgufType type, std::string_view bytes) {
  ++n_values_;
  values_.append(RawText(key)).append(Raw(type)).append(bytes);
  return *this;
}

GgufBuilder& GgufBuilder::Array(std::string_view key, GgufType type, uint64_t count,
                                std::string_view bytes) {
  return Value(key, GgufType::kArray, Raw(type).append(Raw(count)).append(bytes));
}

GgufBuilder& GgufBuilder::Text(std::string_view key, std::string_view value) {
  return Value(key, GgufType::kText, RawText(value));
}

GgufBuilder& GgufBuilder::U32(std::string_view key, uint32_t value) {
  return Value(key, GgufType::kU32, Raw(value));
}

GgufBuilder& GgufBuilder::F32(std::string_view key, float value) {
  return Value(key, GgufType::kF32, Raw(value));
}

GgufBuilder& GgufBuilder::Tensor(std::string_view name, std::span<const int64_t> shape,
                                 uint32_t type, std::string_view data) {
  ++n_tensors_;
  data_ = Padded(std::move(data_), alignment);
  infos_.append(RawText(name)).append(Raw(static_cast<uint32_t>(shape.size())));
  for (size_t i = shape.size(); i-- > 0;) infos_.append(Raw(shape[i]));
  infos_.append(Raw(type)).append(Raw(uint64_t{data_.size()}));
  data_.append(data);
  return *this;
}

GgufBuilder& GgufBuilder::Tensor(std::string_view name, std::span<const int64_t> shape, DType dtype,
                                 std::span<const float> values) {
  std::string data;
  for (const float value : values) {
    if (dtype == DType::kF32) data.append(Raw(value));
    if (dtype == DType::kF16) data.append(Raw(F32ToF16(value)));
    if (dtype == DType::kBf16) data.append(Raw(F32ToBf16(value)));
  }
  const uint32_t type = dtype == DType::kF32 ? 0 : dtype == DType::kF16 ? 1 : 30;
  return Tensor(name, shape, type, data);
}

std::string GgufBuilder::Bytes() const {
  const std::string header =
      absl::StrCat("GGUF", Raw(version), Raw(n_tensors_), Raw(n_values_), values_, infos_);
  return Padded(header, alignment) + data_;
}

}  // namespace ng::test
