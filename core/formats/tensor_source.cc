#include "core/formats/tensor_source.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/formats/ggml_blocks.h"
#include "ng/half.h"

namespace ng {
namespace {

struct DTypeFacts {
  std::string_view name;
  int64_t block;  // elements stored together
  int64_t bytes;  // of these
};

// In the order of the enum.
constexpr std::array<DTypeFacts, 51> kDTypes = {
    {{"F32", 1, 4},        {"F16", 1, 2},       {"BF16", 1, 2},       {"F64", 1, 8},
     {"I64", 1, 8},        {"I32", 1, 4},       {"I16", 1, 2},        {"I8", 1, 1},
     {"U64", 1, 8},        {"U32", 1, 4},       {"U16", 1, 2},        {"U8", 1, 1},
     {"BOOL", 1, 1},       {"F8_E4M3", 1, 1},   {"F8_E5M2", 1, 1},    {"COMPUTED", 1, 4},
     {"Q4_0", 32, 18},     {"Q4_1", 32, 20},    {"Q5_0", 32, 22},     {"Q5_1", 32, 24},
     {"Q8_0", 32, 34},     {"Q2_K", 256, 84},   {"Q3_K", 256, 110},   {"Q4_K", 256, 144},
     {"Q5_K", 256, 176},   {"Q6_K", 256, 210},  {"IQ4_NL", 32, 18},   {"IQ4_XS", 256, 136},
     {"IQ3_XXS", 256, 98}, {"IQ3_S", 256, 110}, {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74},
     {"IQ2_S", 256, 82},   {"IQ1_S", 256, 50},  {"IQ1_M", 256, 56},   {"TQ1_0", 256, 54},
     {"TQ2_0", 256, 66},   {"MXFP4", 32, 17},   {"W4_32", 32, 20},    {"W4Z_32", 32, 24},
     {"W8_32", 32, 36},    {"W8Z_32", 32, 40},  {"W4_64", 64, 36},    {"W4Z_64", 64, 40},
     {"W8_64", 64, 68},    {"W8Z_64", 64, 72},  {"E4M3_32", 32, 36},  {"E4M3_128", 128, 132},
     {"NF4", 64, 36},      {"FP4", 64, 36},     {"NVFP4", 64, 40}}};
static_assert(kDTypes.size() == static_cast<size_t>(DType::kNvfp4) + 1);

const DTypeFacts& FactsOf(DType type) { return kDTypes[static_cast<size_t>(type)]; }

}  // namespace

std::string_view DTypeName(DType type) { return FactsOf(type).name; }

int64_t DTypeBlock(DType type) { return FactsOf(type).block; }

int64_t DTypeBytes(DType type) { return FactsOf(type).bytes; }

bool IsWeightDType(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBf16 ||
         type == DType::kComputed || IsBlockType(type);
}

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
  if (IsBlockType(dtype)) return DequantizeBlocks(dtype, data, out);
  assert(dtype == DType::kF32 || dtype == DType::kComputed);
  if (!out.empty()) std::memcpy(out.data(), data, out.size_bytes());
}

}  // namespace ng
