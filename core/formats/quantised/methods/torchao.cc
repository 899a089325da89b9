// torchao in safetensors: the matrix "m.weight" is "m._weight_qdata", "m._weight_scale" and maybe
// "m._weight_zero_point". Only layouts that have the values in order.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/formats/quantised/factors.h"
#include "core/formats/quantised/formats.h"

namespace ng {
namespace {

constexpr std::string_view kData = "._weight_qdata";

struct TorchaoParts {
  const TensorInfo* data = nullptr;
  const TensorInfo* scale = nullptr;
  const TensorInfo* zero = nullptr;  // null: there is none
};

// Whether "_type" of the default, which the module has, is of integers of 4 bits.
bool SaysInt4(const FormFinder& finder) {
  const nlohmann::json* const type = finder.config().Find("quant_type");
  return type != nullptr && type->dump().find("Int4WeightOnly") != std::string::npos;
}

// Signed, the lower half of a byte first; scales and what is added [groups, rows].
absl::Status AddInt4(FormFinder& finder, const TorchaoParts& parts, std::string name) {
  const int64_t rows = parts.data->shape[0];
  const int64_t inputs = parts.data->shape[1] * 2;
  if (parts.zero == nullptr) {
    return finder.Refuse(*parts.data, "is there without its zero_point");
  }
  const int64_t n_groups = parts.scale->shape.empty() ? 0 : parts.scale->shape[0];
  if (n_groups < 1 || inputs % n_groups != 0) {
    return finder.WrongShape(*parts.scale,
                             absl::StrCat("[groups, ", rows, "] of ", inputs, " inputs"));
  }
  MatrixForm form;
  form.group = inputs / n_groups;
  form.codes = {.tensor = parts.data, .bits = 4, .is_signed = true};
  form.zeros = ConstantFactor(8.0F);
  for (const auto& [tensor, factors] :
       {std::pair(parts.scale, &form.scales), std::pair(parts.zero, &form.biases)}) {
    NG_RETURN_IF_ERROR(finder.CheckShape(*tensor, {n_groups, rows}));
    *factors = FactorsOf(*tensor);
    factors->row_stride = 1;
    factors->group_stride = rows;
  }
  form.parts = {parts.data, parts.scale, parts.zero};
  form.what = absl::StrCat("int4 in groups of ", form.group);
  finder.Add(std::move(form), std::move(name), {rows, inputs});
  return absl::OkStatus();
}

// A value for each byte; scales and zeros [rows, groups].
absl::Status AddBytes(FormFinder& finder, const TorchaoParts& parts, std::string name) {
  const bool is_float = parts.data->dtype == DType::kF8E4M3;
  const int64_t rows = parts.data->shape[0];
  const int64_t inputs = parts.data->shape[1];
  const bool by_group = parts.scale->shape.size() == 2 && parts.scale->shape[1] > 1;
  Sharing sharing;
  if (by_group) {
    const std::vector<int64_t>& blocks = parts.scale->shape;
    if (inputs % blocks[1] != 0 || rows % blocks[0] != 0) {
      return finder.WrongShape(*parts.scale,
                               absl::StrCat("of parts of [", rows, ", ", inputs, "]"));
    }
    sharing = {rows / blocks[0], inputs / blocks[1]};
  }
  MatrixForm form;
  form.codes = {.tensor = parts.data, .bits = 8, .is_signed = !is_float};
  if (is_float) form.table = Float8E4m3Values();
  form.scales = FactorsOf(*parts.scale);
  NG_RETURN_IF_ERROR(
      PlaceFactors(finder, *parts.scale, {rows, inputs}, sharing, &form.scales, &form.group));
  form.parts = {parts.data, parts.scale};
  form.zeros = ConstantFactor(is_float ? 0.0F : 128.0F);
  if (parts.zero != nullptr) {
    NG_RETURN_IF_ERROR(finder.CheckShape(*parts.zero, parts.scale->shape));
    form.zeros = form.scales;
    form.zeros.read =
        [zero = parts.zero](const TensorSource& source) -> absl::StatusOr<std::vector<float>> {
      NG_ASSIGN_OR_RETURN(std::vector<float> numbers, NumbersOf(source, *zero));
      for (float& number : numbers) number += 128.0F;
      return numbers;
    };
    form.parts.push_back(parts.zero);
  }
  form.what = absl::StrCat(is_float ? "fp8" : "int8",
                           by_group ? absl::StrCat(" in groups of ", form.group) : std::string());
  finder.Add(std::move(form), std::move(name), {rows, inputs});
  return absl::OkStatus();
}

}  // namespace

absl::Status FindTorchao(FormFinder& finder) {
  finder.Inert({"quant_type_kwargs", "modules_to_not_convert", "include_input_output_embeddings",
                "untie_embedding_weights"});
  const bool int4 = SaysInt4(finder);
  for (const TensorInfo& tensor : finder.source().tensors()) {
    const auto module = FormFinder::Before(tensor, kData);
    if (!module) {
      if (tensor.name.find("._weight_act_") == std::string::npos) continue;
      return finder.Refuse(tensor, "scales or rounds inputs of a product; can run only without");
    }
    const std::string before = *module + "._weight_";
    TorchaoParts parts = {.data = &tensor, .zero = finder.Find(before + "zero_point")};
    NG_ASSIGN_OR_RETURN(parts.scale, finder.Need(tensor, before + "scale"));
    NG_RETURN_IF_ERROR(finder.CheckType(tensor, {DType::kI8, DType::kU8, DType::kF8E4M3}));
    NG_RETURN_IF_ERROR(finder.CheckRank(tensor, 2, 2));
    for (const TensorInfo* part : {parts.scale, parts.zero}) {
      if (part != nullptr) {
        NG_RETURN_IF_ERROR(
            finder.CheckType(*part, {DType::kF32, DType::kBf16, DType::kF16, DType::kI8}));
      }
    }
    const bool nibbles = tensor.dtype == DType::kU8 || (tensor.dtype == DType::kI8 && int4);
    NG_RETURN_IF_ERROR((nibbles ? AddInt4 : AddBytes)(finder, parts, *module + ".weight"));
  }
  return absl::OkStatus();
}

}  // namespace ng
