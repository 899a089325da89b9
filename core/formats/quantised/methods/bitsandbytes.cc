// bitsandbytes: 4 bits as "x" [values / 2, 1] beside "x.absmax", "x.quant_map", where the factors
// are quantised too "x.nested_absmax" and "x.nested_quant_map", and a JSON text in
// "x.quant_state.bitsandbytes__nf4"; 8 bits as "x" beside "SCB" of the same module.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/formats/quantised/factors.h"
#include "core/formats/quantised/formats.h"

namespace ng {
namespace {

constexpr std::string_view kState = ".quant_state.bitsandbytes__";
constexpr int kStateDepth = 2;

// What the JSON text says.
struct BlockState {
  std::string type;
  std::vector<int64_t> shape;
  int64_t block = 0;
  int64_t nested_block = 0;  // 0: factors are not quantised
  float offset = 0.0F;
};

absl::StatusOr<BlockState> ReadState(const FormFinder& finder, const TensorInfo& tensor) {
  NG_RETURN_IF_ERROR(finder.CheckType(tensor, {DType::kU8}));
  NG_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, BytesOf(finder.source(), tensor));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string where =
      absl::StrCat(finder.source().path(), ": tensor ", JsonExcerpt(tensor.name));
  NG_ASSIGN_OR_RETURN(const JsonDocument json, ParseJson(text, where, kStateDepth));
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(*json, where));
  BlockState state;
  NG_ASSIGN_OR_RETURN(state.type, fields.Text("quant_type"));
  NG_ASSIGN_OR_RETURN(state.shape, fields.IntList("shape", {1, int64_t{1} << 40}));
  NG_ASSIGN_OR_RETURN(state.block, fields.Int("blocksize", {1, 1 << 20}));
  NG_ASSIGN_OR_RETURN(const auto nested, fields.OptionalInt("nested_blocksize", {1, 1 << 20}));
  NG_ASSIGN_OR_RETURN(const auto offset, fields.OptionalNumber("nested_offset", {-1e9, 1e9}));
  state.nested_block = nested.value_or(0);
  state.offset = static_cast<float>(offset.value_or(0.0));
  if (state.type != "nf4" && state.type != "fp4") {
    return finder.Refuse(tensor, absl::StrCat("has the quant_type ", JsonExcerpt(state.type),
                                              ", can run: nf4, fp4"));
  }
  if (state.shape.size() != 2 || state.shape[1] % state.block != 0 || state.shape[1] % 2 != 0) {
    return finder.Refuse(tensor, absl::StrCat("has the shape ", ShapeString(state.shape),
                                              ", must be [rows, inputs] with whole blocks of ",
                                              state.block, " in each row"));
  }
  return state;
}

// Scales that are quantised themselves: each is a number of a table times the factor of its block.
struct NestedScales {
  const TensorInfo* codes = nullptr;
  const TensorInfo* table = nullptr;
  const TensorInfo* factors = nullptr;
  int64_t block = 0;
  float offset = 0.0F;
};
absl::StatusOr<std::vector<float>> ReadNested(const TensorSource& source,
                                              const NestedScales& nested) {
  NG_ASSIGN_OR_RETURN(const std::vector<std::byte> codes, BytesOf(source, *nested.codes));
  NG_ASSIGN_OR_RETURN(const std::vector<float> table, NumbersOf(source, *nested.table));
  NG_ASSIGN_OR_RETURN(const std::vector<float> factors, NumbersOf(source, *nested.factors));
  std::vector<float> scales(codes.size());
  for (size_t i = 0; i < scales.size(); ++i) {
    const float factor = factors[i / static_cast<size_t>(nested.block)];
    scales[i] = table[std::to_integer<size_t>(codes[i])] * factor + nested.offset;
  }
  return scales;
}

absl::Status PlaceScales(const FormFinder& finder, const TensorInfo& weight,
                         const BlockState& state, MatrixForm* form) {
  NG_ASSIGN_OR_RETURN(const TensorInfo* const scales, finder.Need(weight, weight.name + ".absmax"));
  const int64_t n_scales = state.shape[0] * state.shape[1] / state.block;
  NG_RETURN_IF_ERROR(finder.CheckShape(*scales, {n_scales}));
  form->group = state.block;
  form->scales = FactorsOf(*scales);
  form->scales.row_stride = state.shape[1] / state.block;
  form->scales.group_stride = 1;
  form->parts.push_back(scales);
  if (state.nested_block == 0) return finder.CheckType(*scales, {DType::kF32});
  NG_RETURN_IF_ERROR(finder.CheckType(*scales, {DType::kU8}));
  NestedScales nested = {.codes = scales, .block = state.nested_block, .offset = state.offset};
  NG_ASSIGN_OR_RETURN(nested.table, finder.Need(weight, weight.name + ".nested_quant_map"));
  NG_ASSIGN_OR_RETURN(nested.factors, finder.Need(weight, weight.name + ".nested_absmax"));
  NG_RETURN_IF_ERROR(finder.CheckShape(*nested.table, {256}));
  NG_RETURN_IF_ERROR(finder.CheckShape(*nested.factors,
                                       {(n_scales + state.nested_block - 1) / state.nested_block}));
  for (const TensorInfo* part : {nested.table, nested.factors}) {
    NG_RETURN_IF_ERROR(finder.CheckType(*part, {DType::kF32}));
    form->parts.push_back(part);
  }
  form->scales.read = [nested](const TensorSource& source) { return ReadNested(source, nested); };
  return absl::OkStatus();
}

absl::Status AddFourBits(FormFinder& finder, const TensorInfo& state_tensor,
                         const std::string& name) {
  NG_ASSIGN_OR_RETURN(const TensorInfo* const weight, finder.Need(state_tensor, name));
  NG_ASSIGN_OR_RETURN(const BlockState state, ReadState(finder, state_tensor));
  const int64_t n_bytes = state.shape[0] * state.shape[1] / 2;
  if (weight->n_bytes != n_bytes) {
    return finder.WrongShape(*weight, absl::StrCat("of ", n_bytes, " bytes as ",
                                                   ShapeString(state.shape), " of 4 bits"));
  }
  NG_ASSIGN_OR_RETURN(const TensorInfo* const map, finder.Need(*weight, name + ".quant_map"));
  NG_RETURN_IF_ERROR(finder.CheckType(*map, {DType::kF32}));
  NG_RETURN_IF_ERROR(finder.CheckShape(*map, {16}));
  MatrixForm form;
  form.codes = {.tensor = weight, .bits = 4, .upper_first = true};
  NG_ASSIGN_OR_RETURN(form.own_table, NumbersOf(finder.source(), *map));
  form.parts = {weight, &state_tensor, map};
  NG_RETURN_IF_ERROR(PlaceScales(finder, *weight, state, &form));
  form.what = absl::StrCat(state.type, " in blocks of ", state.block);
  finder.Add(std::move(form), name, state.shape);
  return absl::OkStatus();
}

absl::Status AddEightBits(FormFinder& finder, const TensorInfo& scales, const std::string& module) {
  NG_ASSIGN_OR_RETURN(const TensorInfo* const weight, finder.Need(scales, module + ".weight"));
  NG_RETURN_IF_ERROR(finder.CheckType(*weight, {DType::kI8}));
  NG_RETURN_IF_ERROR(finder.CheckRank(*weight, 2, 2));
  NG_RETURN_IF_ERROR(finder.CheckType(scales, {DType::kF32}));
  NG_RETURN_IF_ERROR(finder.CheckShape(scales, {weight->shape[0]}));
  MatrixForm form;
  form.group = weight->shape[1];
  form.codes = {.tensor = weight, .bits = 8, .is_signed = true};
  form.zeros = ConstantFactor(128.0F);
  form.scales = {
      .read = [&scales](const TensorSource& source) -> absl::StatusOr<std::vector<float>> {
        NG_ASSIGN_OR_RETURN(std::vector<float> numbers, NumbersOf(source, scales));
        for (float& number : numbers) number /= 127.0F;
        return numbers;
      },
      .row_stride = 1};
  form.parts = {weight, &scales};
  if (const TensorInfo* const format = finder.Find(module + ".weight_format")) {
    NG_ASSIGN_OR_RETURN(const std::vector<std::byte> order, BytesOf(finder.source(), *format));
    if (order.size() != 1 || order[0] != std::byte{0}) {
      return finder.Refuse(*format, "must be one byte of 0: rows one after the other");
    }
    finder.Drop(*format);
  }
  form.what = "int8";
  finder.Add(std::move(form), weight->name, weight->shape);
  return absl::OkStatus();
}

}  // namespace

absl::Status FindBitsandbytes(FormFinder& finder) {
  finder.Inert({"load_in_4bit", "load_in_8bit", "_load_in_4bit", "_load_in_8bit",
                "bnb_4bit_quant_type", "bnb_4bit_use_double_quant", "bnb_4bit_compute_dtype",
                "bnb_4bit_quant_storage", "llm_int8_enable_fp32_cpu_offload",
                "llm_int8_has_fp16_weight", "llm_int8_skip_modules", "llm_int8_threshold",
                "modules_to_not_convert"});
  for (const TensorInfo& tensor : finder.source().tensors()) {
    if (const size_t at = tensor.name.find(kState); at != std::string::npos) {
      NG_RETURN_IF_ERROR(AddFourBits(finder, tensor, tensor.name.substr(0, at)));
    } else if (const auto module = FormFinder::Before(tensor, ".SCB")) {
      finder.Note("inputs of products");
      NG_RETURN_IF_ERROR(AddEightBits(finder, tensor, *module));
    }
  }
  return absl::OkStatus();
}

}  // namespace ng
