// modelopt: FP8 by tensor or by row, "x" beside "x_scale"; NVFP4, "x" beside "x_scale" and
// "x_scale_2". Which one a matrix is, its type says.
#include <string>

#include "core/formats/quantised/formats.h"
#include "core/formats/quantised/methods/parts.h"

namespace ng {

absl::Status FindModelopt(FormFinder& finder) {
  NG_RETURN_IF_ERROR(
      finder
          .OneOf("quant_algo", {"FP8", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4", "MIXED_PRECISION"}, "")
          .status());
  if (finder.config().Find("kv_cache_quant_algo") != nullptr ||
      finder.config().Find("kv_cache_scheme") != nullptr) {
    finder.Note("keys and values of the cache");
  }
  finder.Note("inputs of products");
  finder.Inert({"exclude_modules", "ignore", "group_size", "config_groups", "producer",
                "quantized_layers", "has_zero_point", "targets"});
  for (const TensorInfo& tensor : finder.source().tensors()) {
    if (tensor.name.ends_with(".pre_quant_scale")) {
      return finder.Refuse(tensor, "scales inputs of a product; can run only without");
    }
    if (!tensor.name.ends_with(".weight")) continue;
    if (tensor.dtype == DType::kF8E4M3) {
      NG_ASSIGN_OR_RETURN(const TensorInfo* const scale,
                          finder.Need(tensor, tensor.name + "_scale"));
      NG_RETURN_IF_ERROR(AddFloat8(finder, tensor, *scale, {}));
    } else if (tensor.dtype == DType::kU8) {
      Float4Parts parts = {.packed = &tensor};
      NG_ASSIGN_OR_RETURN(parts.scale, finder.Need(tensor, tensor.name + "_scale"));
      NG_ASSIGN_OR_RETURN(parts.global, finder.Need(tensor, tensor.name + "_scale_2"));
      NG_RETURN_IF_ERROR(AddNvfp4(finder, tensor.name, parts));
    }
  }
  finder.DropEnding({".input_scale", ".k_scale", ".v_scale", ".output_scale"});
  return absl::OkStatus();
}

}  // namespace ng
