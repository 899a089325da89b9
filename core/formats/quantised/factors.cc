#include "core/formats/quantised/factors.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "ng/half.h"

namespace ng {
namespace {

// Floats of a sign, exponent bits and fraction bits; those that are no numbers are NaN.
template <size_t kValues>
std::array<float, kValues> MakeFloats(int fraction_bits, int bias) {
  std::array<float, kValues> values = {};
  const uint32_t half = kValues / 2;
  const uint32_t fractions = 1U << fraction_bits;
  for (uint32_t i = 0; i < half; ++i) {
    const uint32_t exponent = i >> fraction_bits;
    const uint32_t fraction = i & (fractions - 1);
    const auto whole = static_cast<float>(exponent == 0 ? fraction : fraction + fractions);
    const int power = static_cast<int>(exponent == 0 ? 1 : exponent) - bias - fraction_bits;
    values[i] = std::ldexp(whole, power);
    values[half + i] = -values[i];
  }
  return values;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename Number>
void WidenAll(const std::vector<std::byte>& bytes, std::vector<float>* numbers) {
  for (size_t i = 0; i < numbers->size(); ++i) {
    Number number;
    std::memcpy(&number, bytes.data() + i * sizeof(number), sizeof(number));
    (*numbers)[i] = static_cast<float>(number);
  }
}

void LookUpAll(std::span<const float> table, const std::vector<std::byte>& bytes,
               std::vector<float>* numbers) {
  for (size_t i = 0; i < numbers->size(); ++i) {
    (*numbers)[i] = table[std::to_integer<size_t>(bytes[i])];
  }
}

}  // namespace

std::span<const float> Float8E4m3Values() {
  static const std::array<float, 256> kValues = [] {
    std::array<float, 256> values = MakeFloats<256>(3, 7);
    values[0x7F] = values[0xFF] = kNan;
    return values;
  }();
  return kValues;
}

std::span<const float> Float8E5m2Values() {
  static const std::array<float, 256> kValues = [] {
    std::array<float, 256> values = MakeFloats<256>(2, 15);
    for (const size_t sign : {size_t{0}, size_t{128}}) {
      for (size_t i = 0x7C; i < 128; ++i) values[sign + i] = kNan;
    }
    return values;
  }();
  return kValues;
}

std::span<const float> Float4E2m1Values() {
  static const std::array<float, 16> kValues = MakeFloats<16>(1, 1);
  return kValues;
}

absl::StatusOr<std::vector<std::byte>> BytesOf(const TensorSource& source,
                                               const TensorInfo& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.n_bytes));
  NG_RETURN_IF_ERROR(source.Read(tensor, bytes));
  return bytes;
}

absl::StatusOr<std::vector<float>> NumbersOf(const TensorSource& source, const TensorInfo& tensor) {
  NG_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, BytesOf(source, tensor));
  std::vector<float> numbers(static_cast<size_t>(tensor.n_elements));
  switch (tensor.dtype) {
    case DType::kF64:
      WidenAll<double>(bytes, &numbers);
      break;
    case DType::kI8:
      WidenAll<int8_t>(bytes, &numbers);
      break;
    case DType::kU8:
      WidenAll<uint8_t>(bytes, &numbers);
      break;
    case DType::kI32:
      WidenAll<int32_t>(bytes, &numbers);
      break;
    case DType::kI64:
      WidenAll<int64_t>(bytes, &numbers);
      break;
    case DType::kF8E4M3:
      LookUpAll(Float8E4m3Values(), bytes, &numbers);
      break;
    case DType::kF8E5M2:
      LookUpAll(Float8E5m2Values(), bytes, &numbers);
      break;
    default:
      ConvertToF32(tensor.dtype, bytes.data(), numbers);
  }
  return numbers;
}

absl::StatusOr<std::vector<float>> PowersOf(const TensorSource& source, const TensorInfo& tensor) {
  NG_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, BytesOf(source, tensor));
  std::vector<float> numbers;
  numbers.reserve(bytes.size());
  for (const std::byte byte : bytes) {
    const auto power = std::to_integer<int>(byte);
    numbers.push_back(power == 255 ? kNan : std::ldexp(1.0F, power - 127));
  }
  return numbers;
}

absl::StatusOr<std::vector<int32_t>> IntegersOf(const TensorSource& source,
                                                const TensorInfo& tensor) {
  NG_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, BytesOf(source, tensor));
  std::vector<int32_t> integers(bytes.size() / sizeof(int32_t));
  if (!integers.empty()) std::memcpy(integers.data(), bytes.data(), bytes.size());
  return integers;
}

Factors FactorsOf(const TensorInfo& tensor) {
  return {.read = [&tensor](const TensorSource& source) { return NumbersOf(source, tensor); }};
}

absl::Status PlaceFactors(const FormFinder& finder, const TensorInfo& tensor, MatrixSize size,
                          Sharing sharing, Factors* factors, int64_t* group) {
  const auto [rows, inputs] = size;
  const int64_t shared = sharing.inputs == 0 ? inputs : sharing.inputs;
  const int64_t n_groups = (inputs + shared - 1) / shared;
  const int64_t n_row_blocks = (rows + sharing.rows - 1) / sharing.rows;
  *group = shared;
  if (tensor.n_elements == 1 && sharing.inputs == 0) return absl::OkStatus();
  int64_t n_before = 1;  // of all extents but the last
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) n_before *= tensor.shape[i];
  const bool by_row = sharing.inputs == 0 && tensor.shape == std::vector<int64_t>{rows};
  const bool is_matrix = tensor.shape.size() == 2 || tensor.shape.size() == 3;
  const bool by_group = is_matrix && tensor.shape.back() == n_groups && n_before == n_row_blocks;
  if (!by_row && !by_group) {
    const std::string allowed = ShapeString(std::vector<int64_t>{n_row_blocks, n_groups});
    return finder.WrongShape(tensor, sharing.inputs == 0
                                         ? absl::StrCat("[], [1] or ", allowed)
                                         : absl::StrCat(allowed, ": one for each ", sharing.rows,
                                                        " x ", shared, " values"));
  }
  factors->rows_per = sharing.rows;
  factors->row_stride = n_groups;
  factors->group_stride = n_groups > 1 ? 1 : 0;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> ReadGroupIndex(const FormFinder& finder,
                                                    const TensorInfo& index, int64_t group,
                                                    int64_t n_groups) {
  NG_ASSIGN_OR_RETURN(std::vector<int32_t> groups, IntegersOf(finder.source(), index));
  bool in_order = true;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] < 0 || groups[i] >= n_groups) {
      return finder.Refuse(index, absl::StrCat("has group ", groups[i], " at ", i,
                                               ", must be in [0, ", n_groups - 1, "]"));
    }
    in_order = in_order && groups[i] == static_cast<int32_t>(static_cast<int64_t>(i) / group);
  }
  if (in_order) groups.clear();
  return groups;
}

}  // namespace ng
