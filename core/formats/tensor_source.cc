#include "core/formats/tensor_source.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ng/half.h"

namespace ng {
namespace {

struct DTypeFacts {
  std::string_view name;
  int64_t bytes;
};

// In the order of the enum.
constexpr std::array<DTypeFacts, 15> kDTypes = {{{"F32", 4},
                                                 {"F16", 2},
                                                 {"BF16", 2},
                                                 {"F64", 8},
                                                 {"I64", 8},
                                                 {"I32", 4},
                                                 {"I16", 2},
                                                 {"I8", 1},
                                                 {"U64", 8},
                                                 {"U32", 4},
                                                 {"U16", 2},
                                                 {"U8", 1},
                                                 {"BOOL", 1},
                                                 {"F8_E4M3", 1},
                                                 {"F8_E5M2", 1}}};
static_assert(kDTypes.size() == static_cast<size_t>(DType::kF8E5M2) + 1);

}  // namespace

std::string_view DTypeName(DType type) { return kDTypes[static_cast<size_t>(type)].name; }

int64_t DTypeBytes(DType type) { return kDTypes[static_cast<size_t>(type)].bytes; }

std::string ShapeString(std::span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

const TensorInfo* TensorSource::Find(std::string_view name) const {
  const std::span<const TensorInfo> all = tensors();
  const auto found = std::ranges::lower_bound(all, name, {}, &TensorInfo::name);
  return found != all.end() && found->name == name ? &*found : nullptr;
}

namespace {

template <float (*kToF32)(uint16_t)>
void ConvertHalves(const std::byte* data, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits;  // the data of a file is not aligned
    std::memcpy(&bits, data + i * sizeof(bits), sizeof(bits));
    out[i] = kToF32(bits);
  }
}

}  // namespace

void ConvertToF32(DType dtype, const std::byte* data, std::span<float> out) {
  if (dtype == DType::kF16) return ConvertHalves<F16ToF32>(data, out);
  if (dtype == DType::kBf16) return ConvertHalves<Bf16ToF32>(data, out);
  assert(dtype == DType::kF32);
  if (!out.empty()) std::memcpy(out.data(), data, out.size_bytes());
}

}  // namespace ng
