// AWQ in its version gemm: "x.qweight", "x.qzeros" and "x.scales" are the matrix "x.weight".
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

constexpr int kAwqBits = 4;
constexpr int64_t kRowsOfWord = 8;

absl::Status AddAwq(FormFinder& finder, const TensorInfo& weight, const std::string& name,
                    const PackedColumns& says) {
  NG_ASSIGN_OR_RETURN(const TensorInfo* const zeros, finder.Need(weight, name + ".qzeros"));
  NG_ASSIGN_OR_RETURN(const TensorInfo* const scales, finder.Need(weight, name + ".scales"));
  for (const TensorInfo* tensor : {&weight, zeros}) {
    NG_RETURN_IF_ERROR(finder.CheckType(*tensor, {DType::kI32}));
  }
  NG_RETURN_IF_ERROR(finder.CheckType(*scales, {DType::kF16, DType::kBf16, DType::kF32}));
  NG_RETURN_IF_ERROR(finder.CheckRank(weight, 2, 2));
  NG_RETURN_IF_ERROR(finder.CheckRank(*scales, 2, 2));
  const int64_t inputs = weight.shape[0];
  const int64_t rows = weight.shape[1] * kRowsOfWord;
  NG_ASSIGN_OR_RETURN(const int64_t group, GroupOf(finder, *scales, inputs, says));
  const int64_t n_groups = (inputs + group - 1) / group;
  NG_RETURN_IF_ERROR(finder.CheckShape(*scales, {n_groups, rows}));
  NG_RETURN_IF_ERROR(finder.CheckShape(*zeros, {n_groups, rows / kRowsOfWord}));

  MatrixForm form;
  form.group = group;
  form.codes = {.tensor = &weight, .order = CodeOrder::kEights, .bits = kAwqBits};
  form.scales = FactorsOf(*scales);
  form.scales.row_stride = form.zeros.row_stride = 1;
  form.scales.group_stride = form.zeros.group_stride = rows;
  form.zeros.read = [zeros](const TensorSource& source) -> absl::StatusOr<std::vector<float>> {
    NG_ASSIGN_OR_RETURN(const std::vector<std::byte> stored, BytesOf(source, *zeros));
    std::vector<float> numbers(stored.size() * 2);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const size_t row = i / kRowsOfWord * kRowsOfWord + static_cast<size_t>(kEightsOrder[i % 8]);
      numbers[row] = BitsAt(stored.data(), static_cast<int64_t>(i) * kAwqBits, kAwqBits);
    }
    return numbers;
  };
  form.parts = {&weight, zeros, scales};
  form.what = absl::StrCat("int4 in groups of ", group);
  finder.Add(std::move(form), name + ".weight", {rows, inputs});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PackedColumns> ReadPackedColumns(const FormFinder& finder, Range<int64_t> bits) {
  constexpr Range<int64_t> kGroups = {-1, 1 << 20};
  PackedColumns says;
  NG_ASSIGN_OR_RETURN(says.bits, finder.config().Int("bits", bits));
  NG_ASSIGN_OR_RETURN(says.group, finder.config().Int("group_size", kGroups));
  NG_ASSIGN_OR_RETURN(const auto symmetric, finder.config().OptionalBool("sym"));
  says.symmetric = symmetric.value_or(false);
  if (says.group == 0) return finder.RefuseKey("group_size", "must be -1 or at least 1");
  return says;
}

absl::StatusOr<int64_t> GroupOf(const FormFinder& finder, const TensorInfo& scales, int64_t inputs,
                                const PackedColumns& says) {
  const int64_t said = says.group < 0 ? inputs : says.group;
  const int64_t n_groups = scales.shape[0];
  if ((inputs + said - 1) / said == n_groups) return said;
  if (says.layers_differ && inputs % n_groups == 0) return inputs / n_groups;
  return finder.WrongShape(
      scales, absl::StrCat("[", (inputs + said - 1) / said, ", rows]: one for each ", said, " of ",
                           inputs, " inputs"));
}

absl::Status FindAwqMatrices(FormFinder& finder, const PackedColumns& says) {
  if (says.bits != kAwqBits) return finder.RefuseKey("bits", "can run: 4");
  for (const TensorInfo& tensor : finder.source().tensors()) {
    const auto name = FormFinder::Before(tensor, ".qweight");
    if (name) NG_RETURN_IF_ERROR(AddAwq(finder, tensor, *name, says));
  }
  return absl::OkStatus();
}

absl::Status FindAwq(FormFinder& finder) {
  NG_ASSIGN_OR_RETURN(const PackedColumns says, ReadPackedColumns(finder, {1, 16}));
  NG_RETURN_IF_ERROR(finder.OneOf("version", {"gemm", "GEMM"}, "gemm").status());
  NG_RETURN_IF_ERROR(finder.OneOf("checkpoint_format", {"gemm"}, "gemm").status());
  NG_RETURN_IF_ERROR(finder.OneOf("format", {"gemm"}, "gemm").status());
  NG_RETURN_IF_ERROR(finder.OneOf("method", {"awq"}, "awq").status());
  NG_RETURN_IF_ERROR(finder.OneOf("pack_dtype", {"int32"}, "int32").status());
  finder.Inert({"zero_point", "modules_to_not_convert", "do_fuse", "fuse_max_seq_len",
                "modules_to_fuse", "exllama_config", "backend", "desc_act", "lm_head", "meta",
                "model_name_or_path", "model_file_base_name", "damp_percent", "true_sequential",
                "static_groups"});
  return FindAwqMatrices(finder, says);
}

}  // namespace ng
