// BitNet's packed ternary: "x.weight" [rows / 4, inputs] beside "x.weight_scale". Of a byte the
// lowest two bits are of the first quarter of the rows.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/formats/quantised/factors.h"
#include "core/formats/quantised/formats.h"

namespace ng {
namespace {

constexpr int64_t kRowsOfByte = 4;
constexpr std::string_view kMultiplies = "autobitlinear";

absl::Status AddTernary(FormFinder& finder, const TensorInfo& weight, bool multiplies) {
  NG_ASSIGN_OR_RETURN(const TensorInfo* const scale, finder.Need(weight, weight.name + "_scale"));
  NG_RETURN_IF_ERROR(finder.CheckRank(weight, 2, 2));
  NG_RETURN_IF_ERROR(finder.CheckType(*scale, {DType::kF32, DType::kBf16, DType::kF16}));
  if (scale->n_elements != 1) return finder.WrongShape(*scale, "[] or [1]");
  MatrixForm form;
  form.group = weight.shape[1];
  form.codes = {.tensor = &weight,
                .order = CodeOrder::kPlanes,
                .bits = 2,
                .plane_elements = weight.n_elements,
                .next_shift = 2};
  form.zeros = ConstantFactor(1.0F);
  form.scales.read =
      [scale, multiplies](const TensorSource& source) -> absl::StatusOr<std::vector<float>> {
    NG_ASSIGN_OR_RETURN(std::vector<float> numbers, NumbersOf(source, *scale));
    if (!multiplies) numbers[0] = 1.0F / numbers[0];
    return numbers;
  };
  form.parts = {&weight, scale};
  form.what = "ternary";
  finder.Add(std::move(form), weight.name, {weight.shape[0] * kRowsOfByte, weight.shape[1]});
  return absl::OkStatus();
}

}  // namespace

absl::Status FindBitNet(FormFinder& finder) {
  finder.Inert({"modules_to_not_convert", "rms_norm_eps"});
  NG_ASSIGN_OR_RETURN(const std::string linear,
                      finder.OneOf("linear_class", {"bitlinear", kMultiplies}, "bitlinear"));
  NG_RETURN_IF_ERROR(finder.OneOf("quantization_mode", {"offline"}, "offline").status());
  NG_ASSIGN_OR_RETURN(const auto norm, finder.config().OptionalBool("use_rms_norm"));
  if (norm.value_or(false)) return finder.RefuseKey("use_rms_norm", "can run only with false");
  finder.Note("inputs of products");
  for (const TensorInfo& tensor : finder.source().tensors()) {
    if (tensor.dtype == DType::kU8 && tensor.name.ends_with(".weight")) {
      NG_RETURN_IF_ERROR(AddTernary(finder, tensor, linear == kMultiplies));
    }
  }
  return absl::OkStatus();
}

}  // namespace ng
