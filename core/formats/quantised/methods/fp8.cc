// FP8 as `fp8` and `fbgemm_fp8` have it: "x" in E4M3 beside "x_scale_inv" or "x_scale", which in
// spite of the first name both multiply.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/formats/quantised/factors.h"
#include "core/formats/quantised/formats.h"
#include "core/formats/quantised/methods/parts.h"

namespace ng {
namespace {

// [rows, inputs] of a block; none: no blocks.
absl::StatusOr<Sharing> ReadBlock(const FormFinder& finder) {
  constexpr Range<int64_t> kExtents = {1, 65536};
  const std::string_view key = "weight_block_size";
  if (!finder.config().Has(key)) return Sharing{};
  NG_ASSIGN_OR_RETURN(const std::vector<int64_t> block, finder.config().IntList(key, kExtents));
  if (block.size() != 2) return finder.RefuseKey(key, "must be two integers");
  return Sharing{block[0], block[1]};
}

}  // namespace

absl::Status FindFp8(FormFinder& finder) {
  finder.Inert({"modules_to_not_convert", "ignored_layers", "activation_scheme", "kv_cache_scheme",
                "activation_scale_ub", "dequantize"});
  NG_RETURN_IF_ERROR(finder.OneOf("fmt", {"e4m3"}, "e4m3").status());
  NG_RETURN_IF_ERROR(finder.OneOf("scale_fmt", {"ue8m0"}, "").status());
  NG_ASSIGN_OR_RETURN(const Sharing block, ReadBlock(finder));
  for (const TensorInfo& tensor : finder.source().tensors()) {
    if (tensor.dtype != DType::kF8E4M3) continue;
    const TensorInfo* scale = finder.Find(tensor.name + "_scale_inv");
    if (scale == nullptr) {
      NG_ASSIGN_OR_RETURN(scale, finder.Need(tensor, tensor.name + "_scale"));
    }
    NG_RETURN_IF_ERROR(AddFloat8(finder, tensor, *scale, block));
  }
  finder.DropEnding({".input_scale", ".activation_scale", ".input_scale_ub", ".k_scale", ".v_scale",
                     "_activation_scale", ".q_scale", ".prob_scale"});
  finder.Note("inputs of products");
  return absl::OkStatus();
}

}  // namespace ng
