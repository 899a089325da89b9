#include "core/model/files/random_source.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/half.h"

namespace ng {
namespace {

constexpr float kHalfRange = 0.034641016F;  // of a uniform distribution with deviation 0.02

// What a tensor is filled with.
enum class Fill { kRandom, kOne, kZero };

Fill FillOf(TensorRole role) {
  using enum TensorRole;
  if (IsMatrix(role) || role == kPositions || role == kStateConv) return Fill::kRandom;
  constexpr TensorRole kNorms[] = {kFinalNorm,    kEmbeddingNorm, kAttnNorm,     kAttnInnerNorm,
                                   kAttnPostNorm, kMlpNorm,       kMlpInnerNorm, kMlpPostNorm,
                                   kQNorm,        kQDownNorm,     kKvDownNorm,   kKNorm,
                                   kStateNorm,    kStateSkip};
  const bool is_norm = std::ranges::count(kNorms, role) > 0;
  return is_norm ? Fill::kOne : Fill::kZero;
}

// A counter-based generator: SplitMix64's mixing function (Steele et al. 2014) of the counter.
uint64_t Mix(uint64_t counter) {
  uint64_t z = counter * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

float Uniform(uint64_t counter) {
  const auto bits = static_cast<int32_t>(Mix(counter) >> 32U);
  return static_cast<float>(bits) * (kHalfRange * 0x1p-31F);
}

template <typename Element, typename Convert>
void FillElements(Fill fill, uint64_t first, Convert&& convert, std::span<std::byte> out) {
  const size_t n = out.size() / sizeof(Element);
  for (size_t i = 0; i < n; ++i) {
    const float value = fill == Fill::kRandom ? Uniform(first + i) : fill == Fill::kOne ? 1.0F : 0;
    const Element element = convert(value);
    std::memcpy(out.data() + i * sizeof(Element), &element, sizeof(Element));
  }
}

class RandomTensorSource final : public TensorSource {
 public:
  RandomTensorSource(const Family& family, const ModelSpec& spec, DType dtype, std::string path)
      : path_(std::move(path)) {
    // In the order of the names, as tensors() must be.
    std::map<std::string, std::pair<RoleName, int>> entries;
    ForEachTensor(family, spec, family.experts,
                  [&](const RoleName& entry, const TensorSite& at, const std::string& name) {
                    if (entry.role == TensorRole::kHead && spec.head.tied) return;
                    entries[name] = {entry, at.layer};
                  });
    for (const auto& [name, place] : entries) {
      const auto& [entry, layer] = place;
      TensorInfo& tensor = tensors_.emplace_back();
      tensor.name = name;
      tensor.dtype = dtype;
      tensor.shape = StoredShape(entry, spec, layer);
      tensor.n_elements = std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1},
                                          std::multiplies<>());
      tensor.n_bytes = tensor.n_elements * DTypeBytes(dtype);
      fills_.push_back(FillOf(entry.role));
    }
  }

  const std::string& path() const override { return path_; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }

  absl::Status ReadAt(const TensorInfo& tensor, int64_t first_byte,
                      std::span<std::byte> out) const override {
    assert(first_byte + static_cast<int64_t>(out.size()) <= tensor.n_bytes);
    const auto index = static_cast<uint64_t>(&tensor - tensors_.data());
    const Fill fill = fills_[index];
    const uint64_t first = Mix(index + 1) +  // far from every other tensor's counters
                           static_cast<uint64_t>(first_byte / DTypeBytes(tensor.dtype));
    if (tensor.dtype == DType::kF32) {
      FillElements<float>(
          fill, first, [](float value) { return value; }, out);
    } else if (tensor.dtype == DType::kBf16) {
      FillElements<uint16_t>(fill, first, F32ToBf16, out);
    } else {
      FillElements<uint16_t>(fill, first, F32ToF16, out);
    }
    return absl::OkStatus();
  }

 private:
  std::string path_;
  std::vector<TensorInfo> tensors_;
  std::vector<Fill> fills_;  // of each tensor
};

absl::StatusOr<DType> ReadDType(const JsonFields& config, const std::string& path) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    NG_ASSIGN_OR_RETURN(const std::optional<std::string> name, config.OptionalText(key));
    if (!name) continue;
    if (*name == "float32") return DType::kF32;
    if (*name == "float16") return DType::kF16;
    if (*name == "bfloat16") return DType::kBf16;
    return ModelFileError(absl::StrCat(path, ": key \"", key, "\" = ", JsonExcerpt(*name),
                                       ", must be one of: float32, float16, bfloat16"));
  }
  return DType::kF32;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSource>> MakeRandomSource(const Family& family,
                                                               const ModelSpec& spec,
                                                               const JsonFields& config,
                                                               const std::string& path) {
  NG_ASSIGN_OR_RETURN(const DType dtype, ReadDType(config, path));
  return std::make_unique<RandomTensorSource>(family, spec, dtype, path);
}

}  // namespace ng
