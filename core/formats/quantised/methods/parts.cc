#include "core/formats/quantised/methods/parts.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ng {
namespace {

constexpr int64_t kNvfp4Group = 16;
constexpr int64_t kMxfp4Group = 32;

int64_t RowsOf(const TensorInfo& tensor) { return tensor.n_elements / tensor.shape.back(); }

// The shape of the values, of which a byte has two. A word of 32 bits has eight.
absl::StatusOr<std::vector<int64_t>> Unpacked(const FormFinder& finder, const TensorInfo& packed,
                                              int64_t group) {
  NG_RETURN_IF_ERROR(finder.CheckRank(packed, 2, 3));
  std::vector<int64_t> shape = packed.shape;
  shape.back() *= 2 * DTypeBytes(packed.dtype);
  if (shape.back() % group == 0) return shape;
  return finder.WrongShape(packed, absl::StrCat("of a multiple of ", group, " values in a row"));
}

}  // namespace

absl::Status AddFloat8(FormFinder& finder, const TensorInfo& weight, const TensorInfo& scale,
                       Sharing sharing) {
  NG_RETURN_IF_ERROR(finder.CheckRank(weight, 2, 3));
  NG_RETURN_IF_ERROR(
      finder.CheckType(scale, {DType::kF32, DType::kBf16, DType::kF16, DType::kF8E4M3}));
  const bool batch = weight.shape.size() == 3;
  if (batch && sharing.inputs > 0 && weight.shape[1] % sharing.rows != 0) {
    return finder.WrongShape(
        weight, absl::StrCat("of a multiple of ", sharing.rows, " rows in each matrix"));
  }
  MatrixForm form;
  form.codes = {.tensor = &weight, .bits = 8};
  form.table = Float8E4m3Values();
  form.scales = FactorsOf(scale);
  NG_RETURN_IF_ERROR(PlaceFactors(finder, scale, {RowsOf(weight), weight.shape.back()}, sharing,
                                  &form.scales, &form.group));
  form.parts = {&weight, &scale};
  form.what = sharing.inputs > 0
                  ? absl::StrCat("fp8 in blocks of ", sharing.rows, " x ", sharing.inputs)
                  : std::string("fp8");
  finder.Add(std::move(form), weight.name, weight.shape);
  return absl::OkStatus();
}

absl::Status AddNvfp4(FormFinder& finder, const std::string& name, const Float4Parts& parts) {
  const auto [packed, scale, global, divides] = parts;
  NG_RETURN_IF_ERROR(finder.CheckType(*packed, {DType::kU8, DType::kU32}));
  NG_RETURN_IF_ERROR(finder.CheckType(*scale, {DType::kF8E4M3, DType::kU8}));
  NG_ASSIGN_OR_RETURN(std::vector<int64_t> shape, Unpacked(finder, *packed, kNvfp4Group));
  MatrixForm form;
  form.codes = {.tensor = packed, .bits = 4};
  form.table = Float4E2m1Values();
  NG_RETURN_IF_ERROR(PlaceFactors(finder, *scale, {RowsOf(*packed), shape.back()}, {1, kNvfp4Group},
                                  &form.scales, &form.group));
  form.parts = {packed, scale};
  if (global != nullptr) {
    NG_RETURN_IF_ERROR(finder.CheckType(*global, {DType::kF32}));
    if (global->n_elements != 1) return finder.WrongShape(*global, "[] or [1]");
    form.parts.push_back(global);
    form.whole.read = [global = global, divides = divides](
                          const TensorSource& source) -> absl::StatusOr<std::vector<float>> {
      NG_ASSIGN_OR_RETURN(std::vector<float> factor, NumbersOf(source, *global));
      if (divides) factor[0] = 1.0F / factor[0];
      return factor;
    };
  }
  form.scales.read = [scale =
                          scale](const TensorSource& source) -> absl::StatusOr<std::vector<float>> {
    NG_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, BytesOf(source, *scale));
    std::vector<float> scales;
    scales.reserve(bytes.size());
    for (const std::byte byte : bytes) {
      scales.push_back(Float8E4m3Values()[std::to_integer<size_t>(byte)]);
    }
    return scales;
  };
  form.is_nvfp4 = true;
  form.what = "nvfp4";
  finder.Add(std::move(form), name, std::move(shape));
  return absl::OkStatus();
}

absl::Status AddMxfp4(FormFinder& finder, const std::string& name, const Float4Parts& parts) {
  const auto [packed, scale, global, divides] = parts;
  NG_RETURN_IF_ERROR(finder.CheckType(*packed, {DType::kU8, DType::kU32}));
  NG_RETURN_IF_ERROR(finder.CheckType(*scale, {DType::kU8}));
  NG_ASSIGN_OR_RETURN(std::vector<int64_t> shape, Unpacked(finder, *packed, kMxfp4Group));
  MatrixForm form;
  form.codes = {.tensor = packed, .bits = 4};
  form.table = Float4E2m1Values();
  NG_RETURN_IF_ERROR(PlaceFactors(finder, *scale, {RowsOf(*packed), shape.back()}, {1, kMxfp4Group},
                                  &form.scales, &form.group));
  form.scales.read = [scale = scale](const TensorSource& source) {
    return PowersOf(source, *scale);
  };
  form.parts = {packed, scale};
  form.is_mxfp4 = true;
  form.what = "mxfp4";
  finder.Add(std::move(form), name, std::move(shape));
  return absl::OkStatus();
}

}  // namespace ng
