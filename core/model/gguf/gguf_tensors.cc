#include "core/model/gguf/gguf_tensors.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/formats/derived_source.h"
#include "core/model/spec/limits.h"

namespace ng {
namespace {

constexpr int64_t kF32Bytes = sizeof(float);

// Elements [first, first + n) of a tensor as F32; whole blocks of it.
absl::Status ReadF32(const TensorSource& tensors, const TensorInfo& tensor, int64_t first,
                     std::span<float> out) {
  const int64_t block = DTypeBlock(tensor.dtype);
  const int64_t bytes = DTypeBytes(tensor.dtype);
  std::vector<std::byte> raw(out.size() / static_cast<size_t>(block) * static_cast<size_t>(bytes));
  NG_RETURN_IF_ERROR(tensors.ReadAt(tensor, first / block * bytes, raw));
  ConvertToF32(tensor.dtype, raw.data(), out);
  return absl::OkStatus();
}

DerivedTensor F32Tensor(std::string name, std::vector<int64_t> shape) {
  DerivedTensor made;
  made.info = {.name = std::move(name), .dtype = DType::kF32, .shape = std::move(shape)};
  made.info.n_elements = 1;
  for (const int64_t extent : made.info.shape) made.info.n_elements *= extent;
  made.info.n_bytes = made.info.n_elements * kF32Bytes;
  made.unit_bytes = made.info.shape.back() * kF32Bytes;
  return made;
}

// A value of each layer that the key-values hold.
absl::Status AddXieluValues(const GgufMetadata& metadata, const char* name,
                            std::vector<DerivedTensor>* derived) {
  const std::string key = absl::StrCat("xielu.", name);
  NG_ASSIGN_OR_RETURN(const std::vector<float> values, metadata.Floats(key));
  if (std::ssize(values) > kCount.max) {
    return ModelFileError(absl::StrCat(metadata.path(), ": key \"", key, "\" has ", values.size(),
                                       " values, must have one for each layer"));
  }
  for (size_t layer = 0; layer < values.size(); ++layer) {
    DerivedTensor value = F32Tensor(absl::StrCat("blk.", layer, ".ffn_act.", name), {1});
    value.read = [number = values[layer]](const TensorSource&, int64_t, int64_t, std::byte* out) {
      std::memcpy(out, &number, sizeof(number));
      return absl::OkStatus();
    };
    derived->push_back(std::move(value));
  }
  return absl::OkStatus();
}

// The same values in another shape.
DerivedTensor Reshaped(const TensorInfo& tensor, std::vector<int64_t> shape) {
  DerivedTensor made = {.info = tensor, .unit_bytes = DTypeBytes(tensor.dtype)};
  made.info.shape = std::move(shape);
  made.made_of = {tensor.name};
  made.read = [tensor, bytes = made.unit_bytes](const TensorSource& inner, int64_t unit, int64_t n,
                                                std::byte* out) {
    return inner.ReadAt(*inner.Find(tensor.name), unit * bytes,
                        std::span(out, static_cast<size_t>(n * bytes)));
  };
  return made;
}

// The file holds minus the rate at which a state fades; the decoder takes its logarithm.
DerivedTensor LogOfRates(const TensorInfo& tensor) {
  DerivedTensor made = F32Tensor(tensor.name, {tensor.n_elements});
  made.made_of = {tensor.name};
  made.unit_bytes = kF32Bytes;
  made.read = [tensor](const TensorSource& inner, int64_t unit, int64_t n, std::byte* out) {
    std::vector<float> rates(static_cast<size_t>(n));
    NG_RETURN_IF_ERROR(ReadF32(inner, *inner.Find(tensor.name), unit, rates));
    for (float& rate : rates) {
      if (!(rate < 0.0F)) {
        return ModelFileError(absl::StrCat(inner.path(), ": tensor \"", tensor.name, "\" holds ",
                                           rate, ", must hold numbers below 0"));
      }
      rate = std::log(-rate);
    }
    std::memcpy(out, rates.data(), rates.size() * sizeof(float));
    return absl::OkStatus();
  };
  return made;
}

// Tensors of states whose shapes in GGUF have a dimension more or less than the decoder's.
void AddOfStates(const TensorInfo& tensor, std::vector<DerivedTensor>* derived) {
  const std::string_view name = tensor.name;
  if (!name.starts_with("blk.") || !IsWeightDType(tensor.dtype) || DTypeBlock(tensor.dtype) > 1) {
    return;
  }
  const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  if (ends(".ssm_a")) {
    derived->push_back(LogOfRates(tensor));
  } else if (ends(".ssm_d") || ends(".ssm_norm.weight")) {
    derived->push_back(Reshaped(tensor, {tensor.n_elements}));
  } else if ((ends(".ssm_conv1d.weight") || ends(".shortconv.conv.weight")) &&
             tensor.shape.size() == 2) {
    derived->push_back(Reshaped(tensor, {tensor.shape[0], 1, tensor.shape[1]}));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSource>> WithDerivedTensors(
    const GgufMetadata& metadata, std::unique_ptr<TensorSource> tensors) {
  std::vector<DerivedTensor> derived;
  for (const TensorInfo& tensor : tensors->tensors()) AddOfStates(tensor, &derived);
  const bool xielu = metadata.fields().Has("general.architecture") &&
                     metadata.Field("general.architecture") == "apertus";
  for (const char* name : {"alpha_n", "alpha_p", "beta", "eps"}) {
    if (!xielu) break;
    NG_RETURN_IF_ERROR(AddXieluValues(metadata, name, &derived));
  }
  if (derived.empty()) return tensors;
  return std::make_unique<DerivedSource>(std::move(tensors), std::move(derived));
}

}  // namespace ng
