// The formats of quantised checkpoints, one row each.
#ifndef NG_CORE_FORMATS_QUANTISED_FORMATS_H_
#define NG_CORE_FORMATS_QUANTISED_FORMATS_H_

#include <span>
#include <string_view>

#include "core/formats/quantised/form_finder.h"
#include "ng/status.h"

namespace ng {

// Each finds the matrices of its format, and refuses what it would read wrongly.
absl::Status FindFp8(FormFinder& finder);
absl::Status FindGptq(FormFinder& finder);
absl::Status FindAwq(FormFinder& finder);
absl::Status FindAutoRound(FormFinder& finder);
absl::Status FindCompressedTensors(FormFinder& finder);
absl::Status FindModelopt(FormFinder& finder);
absl::Status FindMlx(FormFinder& finder);
absl::Status FindBitsandbytes(FormFinder& finder);
absl::Status FindHqq(FormFinder& finder);
absl::Status FindTorchao(FormFinder& finder);
absl::Status FindBitNet(FormFinder& finder);

struct QuantisedFormat {
  std::string_view method;  // quant_method of quantization_config
  std::string_view what;    // as README's table has it
  absl::Status (*find)(FormFinder& finder);
};
// README.md has the same in a row of its table.
inline constexpr QuantisedFormat kQuantisedFormats[] = {
    {"fp8", "E4M3 by blocks, by rows, by tensor", FindFp8},
    {"fbgemm_fp8", "E4M3 by rows", FindFp8},
    {"gptq", "2, 3, 4 and 8 bits, act-order, both kinds of zeros", FindGptq},
    {"awq", "4 bits, version gemm", FindAwq},
    {"auto-round", "2, 3, 4 and 8 bits, packed as GPTQ or AWQ", FindAutoRound},
    {"compressed-tensors",
     "pack-quantized, int-quantized, float-quantized, nvfp4-pack-quantized, mxfp4-pack-quantized",
     FindCompressedTensors},
    {"modelopt", "FP8, NVFP4", FindModelopt},
    {"mlx", "2, 3, 4, 5, 6 and 8 bits, mxfp4, nvfp4", FindMlx},
    {"bitsandbytes", "nf4, fp4, int8", FindBitsandbytes},
    {"hqq", "1, 2, 3, 4 and 8 bits", FindHqq},
    {"torchao", "int4, int8, E4M3, of plain layout", FindTorchao},
    {"bitnet", "packed ternary", FindBitNet},
};

}  // namespace ng

#endif  // NG_CORE_FORMATS_QUANTISED_FORMATS_H_
