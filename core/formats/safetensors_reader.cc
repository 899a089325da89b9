// SafetensorsReader (ng/safetensors.h).
#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/formats/safetensors.h"
#include "ng/names.h"

namespace ng {

struct SafetensorsReader::State {
  std::unique_ptr<TensorSource> source;
  std::map<std::string, std::string> metadata;
  std::vector<StoredTensor> tensors;
  std::vector<std::byte> bytes;  // of what was read last
};

SafetensorsReader::SafetensorsReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
SafetensorsReader::SafetensorsReader(SafetensorsReader&& other) noexcept = default;
SafetensorsReader& SafetensorsReader::operator=(SafetensorsReader&& other) noexcept = default;
SafetensorsReader::~SafetensorsReader() = default;

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(const std::string& path) {
  auto state = std::make_unique<State>();
  NG_ASSIGN_OR_RETURN(state->source, OpenSafetensors(path, &state->metadata));
  for (const TensorInfo& info : state->source->tensors()) {
    state->tensors.push_back({info.name, info.shape, info.n_elements});
  }
  return SafetensorsReader(std::move(state));
}

const std::string& SafetensorsReader::path() const { return state_->source->path(); }
const std::vector<StoredTensor>& SafetensorsReader::tensors() const { return state_->tensors; }
const std::map<std::string, std::string>& SafetensorsReader::metadata() const {
  return state_->metadata;
}

const StoredTensor* SafetensorsReader::Find(std::string_view name) const {
  const auto found = std::ranges::find(state_->tensors, name, &StoredTensor::name);
  return found == state_->tensors.end() ? nullptr : &*found;
}

absl::StatusOr<NamedTensor> SafetensorsReader::Read(std::string_view name) const {
  const StoredTensor* const stored = Find(name);
  if (stored == nullptr) {
    std::vector<std::string> names;
    for (const StoredTensor& tensor : state_->tensors) names.push_back(tensor.name);
    const std::optional<std::string> nearest = NearestName(name, names);
    return ModelFileError(absl::StrCat(path(), ": there is no tensor '", View(name), "'",
                                       nearest ? absl::StrCat("; the nearest is ", *nearest) : ""));
  }
  NamedTensor tensor = {stored->name, stored->shape, {}};
  tensor.data.resize(static_cast<size_t>(stored->n_elements));
  NG_RETURN_IF_ERROR(ReadAt(*stored, 0, tensor.data));
  return tensor;
}

absl::Status SafetensorsReader::ReadAt(const StoredTensor& tensor, int64_t first,
                                       std::span<float> out) const {
  const TensorInfo& info = *state_->source->Find(tensor.name);
  if (!IsWeightDType(info.dtype)) {
    return ModelFileError(absl::StrCat(path(), ": tensor ", tensor.name, " has elements of type ",
                                       View(DTypeName(info.dtype)), ", must be F32, F16 or BF16"));
  }
  const int64_t element_bytes = DTypeBytes(info.dtype);
  state_->bytes.resize(out.size() * static_cast<size_t>(element_bytes));
  NG_RETURN_IF_ERROR(state_->source->ReadAt(info, first * element_bytes, state_->bytes));
  ConvertToF32(info.dtype, state_->bytes.data(), out);
  return absl::OkStatus();
}

}  // namespace ng
