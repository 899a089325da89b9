// GPTQ: "x.qweight", "x.qzeros", "x.scales" and "x.g_idx" are the matrix "x.weight". AutoRound
// packs as GPTQ or as AWQ do.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/formats/quantised/factors.h"
#include "core/formats/quantised/formats.h"
#include "core/formats/quantised/methods/packed_columns.h"
#include "core/formats/quantised/row_decoder.h"

namespace ng {
namespace {

constexpr int64_t kBitsOfWord = 32;
constexpr int64_t kAllowedBits[] = {2, 3, 4, 8};

bool IsAllowed(int64_t bits) { return std::ranges::count(kAllowedBits, bits) > 0; }

// One matrix. [inputs * bits / 32, rows], [groups, rows * bits / 32], [groups, rows], [inputs]
struct GptqTensors {
  const TensorInfo* weight = nullptr;
  const TensorInfo* zeros = nullptr;
  const TensorInfo* scales = nullptr;
  const TensorInfo* group_index = nullptr;  // null: groups in order
};

absl::StatusOr<GptqTensors> PartsBeside(const FormFinder& finder, const TensorInfo& weight,
                                        const std::string& name) {
  GptqTensors tensors = {.weight = &weight};
  NG_ASSIGN_OR_RETURN(tensors.zeros, finder.Need(weight, name + ".qzeros"));
  NG_ASSIGN_OR_RETURN(tensors.scales, finder.Need(weight, name + ".scales"));
  tensors.group_index = finder.Find(name + ".g_idx");
  NG_RETURN_IF_ERROR(finder.CheckType(weight, {DType::kI32}));
  NG_RETURN_IF_ERROR(finder.CheckRank(weight, 2, 2));
  NG_RETURN_IF_ERROR(finder.CheckType(*tensors.zeros, {DType::kI32}));
  NG_RETURN_IF_ERROR(finder.CheckType(*tensors.scales, {DType::kF16, DType::kBf16, DType::kF32}));
  NG_RETURN_IF_ERROR(finder.CheckRank(*tensors.scales, 2, 2));
  if (tensors.group_index != nullptr) {
    NG_RETURN_IF_ERROR(finder.CheckType(*tensors.group_index, {DType::kI32}));
    NG_RETURN_IF_ERROR(finder.CheckRank(*tensors.group_index, 1, 1));
  }
  return tensors;
}

// How many bits a code has: as the config says, or by the sizes where layers differ.
absl::StatusOr<int64_t> BitsOf(const FormFinder& finder, const GptqTensors& tensors,
                               const PackedColumns& says) {
  const int64_t words = tensors.weight->shape[0];
  if (tensors.group_index == nullptr || !says.layers_differ) {
    if (words * kBitsOfWord % says.bits == 0) return says.bits;
    return finder.WrongShape(*tensors.weight,
                             absl::StrCat("of a multiple of ", says.bits, " words in a column"));
  }
  const int64_t inputs = tensors.group_index->shape[0];
  const int64_t bits = words * kBitsOfWord / inputs;
  if (IsAllowed(bits) && inputs * bits == words * kBitsOfWord) return bits;
  return finder.WrongShape(*tensors.weight,
                           absl::StrCat("[", inputs, " * bits / 32, rows] with 2, 3, 4 or 8 bits"));
}

// Zeros that are all alike are one, so that integers need no minima.
absl::Status ShareZero(const TensorSource& source, Factors* zeros) {
  NG_ASSIGN_OR_RETURN(const std::vector<float> numbers, zeros->read(source));
  const bool alike = std::ranges::all_of(numbers, [&](float zero) { return zero == numbers[0]; });
  if (alike && !numbers.empty()) *zeros = ConstantFactor(numbers[0]);
  return absl::OkStatus();
}

absl::Status AddGptq(FormFinder& finder, const std::string& name, const GptqTensors& tensors,
                     const PackedColumns& says) {
  NG_ASSIGN_OR_RETURN(const int64_t bits, BitsOf(finder, tensors, says));
  const int64_t rows = tensors.weight->shape[1];
  const int64_t inputs = tensors.weight->shape[0] * kBitsOfWord / bits;
  if (tensors.group_index != nullptr) {
    NG_RETURN_IF_ERROR(finder.CheckShape(*tensors.group_index, {inputs}));
  }
  if (rows * bits % kBitsOfWord != 0) {
    return finder.WrongShape(
        *tensors.weight, absl::StrCat("of rows whose ", bits, " bits fill whole words of zeros"));
  }
  NG_ASSIGN_OR_RETURN(const int64_t group, GroupOf(finder, *tensors.scales, inputs, says));
  const int64_t n_groups = (inputs + group - 1) / group;
  NG_RETURN_IF_ERROR(finder.CheckShape(*tensors.scales, {n_groups, rows}));
  NG_RETURN_IF_ERROR(finder.CheckShape(*tensors.zeros, {n_groups, rows * bits / kBitsOfWord}));

  MatrixForm form;
  form.group = group;
  form.codes = {
      .tensor = tensors.weight, .order = CodeOrder::kColumns, .bits = static_cast<int>(bits)};
  form.scales = FactorsOf(*tensors.scales);
  form.scales.row_stride = form.zeros.row_stride = 1;
  form.scales.group_stride = form.zeros.group_stride = rows;
  form.zeros.read = [zeros = tensors.zeros, bits, rows, n_groups, plus_one = says.zeros_less_one](
                        const TensorSource& source) -> absl::StatusOr<std::vector<float>> {
    NG_ASSIGN_OR_RETURN(const std::vector<std::byte> stored, BytesOf(source, *zeros));
    std::vector<float> numbers(static_cast<size_t>(n_groups * rows));
    const uint32_t mask = (1U << bits) - 1;
    for (size_t i = 0; i < numbers.size(); ++i) {  // whole words in each group: one stream
      const uint32_t zero =
          BitsAt(stored.data(), static_cast<int64_t>(i) * bits, static_cast<int>(bits));
      numbers[i] = static_cast<float>(plus_one ? (zero + 1) & mask : zero);
    }
    return numbers;
  };
  if (says.symmetric) NG_RETURN_IF_ERROR(ShareZero(finder.source(), &form.zeros));
  form.parts = {tensors.weight, tensors.zeros, tensors.scales};
  if (tensors.group_index != nullptr) {
    form.parts.push_back(tensors.group_index);
    NG_ASSIGN_OR_RETURN(form.group_of,
                        ReadGroupIndex(finder, *tensors.group_index, group, n_groups));
  }
  form.what = absl::StrCat("int", bits, " in groups of ", group,
                           form.group_of.empty() ? "" : " by activation order");
  finder.Add(std::move(form), name + ".weight", {rows, inputs});
  return absl::OkStatus();
}

absl::StatusOr<PackedColumns> ReadGptqKeys(const FormFinder& finder) {
  NG_ASSIGN_OR_RETURN(PackedColumns says, ReadPackedColumns(finder, {2, 8}));
  if (!IsAllowed(says.bits)) return finder.RefuseKey("bits", "must be 2, 3, 4 or 8");
  finder.Inert({"desc_act",
                "static_groups",
                "damp_percent",
                "damp_auto_increment",
                "true_sequential",
                "lm_head",
                "model_name_or_path",
                "model_file_base_name",
                "meta",
                "quantizer",
                "dataset",
                "tokenizer",
                "batch_size",
                "block_name_to_quantize",
                "module_name_preceding_first_block",
                "modules_in_block_to_quantize",
                "modules_to_not_convert",
                "use_cuda_fp16",
                "use_exllama",
                "disable_exllama",
                "exllama_config",
                "max_input_length",
                "cache_block_outputs",
                "pad_token_id",
                "model_seqlen",
                "backend",
                "mse",
                "version",
                "act_group_aware",
                "hyb_act",
                "offload_to_disk",
                "offload_to_disk_path",
                "pack_impl",
                "mock_quantization",
                "failsafe",
                "failsafe_with_rtn",
                "fallback",
                "gptaq",
                "foem",
                "v2",
                "v2_alpha",
                "hessian"});
  NG_RETURN_IF_ERROR(finder.OneOf("pack_dtype", {"int32"}, "int32").status());
  NG_RETURN_IF_ERROR(finder.OneOf("method", {"gptq"}, "gptq").status());
  says.layers_differ = finder.config().Find("dynamic") != nullptr;
  return says;
}

}  // namespace

absl::Status FindGptqMatrices(FormFinder& finder, const PackedColumns& says) {
  constexpr std::string_view kWeight = ".qweight";
  for (const TensorInfo& tensor : finder.source().tensors()) {
    const auto name = FormFinder::Before(tensor, kWeight);
    if (!name) continue;
    NG_ASSIGN_OR_RETURN(const GptqTensors tensors, PartsBeside(finder, tensor, *name));
    NG_RETURN_IF_ERROR(AddGptq(finder, *name, tensors, says));
  }
  return absl::OkStatus();
}

absl::Status FindGptq(FormFinder& finder) {
  NG_ASSIGN_OR_RETURN(PackedColumns says, ReadGptqKeys(finder));
  NG_ASSIGN_OR_RETURN(const std::string format,
                      finder.OneOf("checkpoint_format", {"gptq", "gptq_v2"}, "gptq"));
  NG_RETURN_IF_ERROR(finder.OneOf("format", {"gptq", "gptq_v2"}, format).status());
  says.zeros_less_one = format == "gptq";
  return FindGptqMatrices(finder, says);
}

absl::Status FindAutoRound(FormFinder& finder) {
  NG_ASSIGN_OR_RETURN(PackedColumns says, ReadPackedColumns(finder, {2, 8}));
  if (!IsAllowed(says.bits)) return finder.RefuseKey("bits", "must be 2, 3, 4 or 8");
  NG_RETURN_IF_ERROR(finder.OneOf("data_type", {"int"}, "int").status());
  NG_ASSIGN_OR_RETURN(const std::string packing,
                      finder.OneOf("packing_format",
                                   {"auto_round", "auto_round:gptqmodel", "auto_round:exllamav2",
                                    "auto_round:auto_gptq", "auto_round:auto_awq"},
                                   "auto_round"));
  finder.Inert({"autoround_version",
                "batch_size",
                "iters",
                "lr",
                "minmax_lr",
                "nsamples",
                "seqlen",
                "gradient_accumulate_steps",
                "low_gpu_mem_usage",
                "dataset",
                "block_name_to_quantize",
                "to_quant_block_names",
                "enable_quanted_input",
                "enable_minmax_tuning",
                "enable_norm_bias_tuning",
                "damp_percent",
                "desc_act",
                "true_sequential",
                "backend",
                "amp",
                "scale_dtype",
                "lm_head",
                "quant_lm_head",
                "quant_block_list",
                "super_bits",
                "super_group_size",
                "act_bits",
                "act_data_type",
                "act_dynamic",
                "act_group_size",
                "act_sym",
                "modules_to_not_convert",
                "provider",
                "version",
                "zero_point"});
  says.layers_differ = finder.config().Find("extra_config") != nullptr;
  if (packing == "auto_round:auto_awq") return FindAwqMatrices(finder, says);
  says.zeros_less_one = packing == "auto_round:auto_gptq";
  return FindGptqMatrices(finder, says);
}

}  // namespace ng
