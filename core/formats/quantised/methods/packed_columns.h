// What GPTQ, AWQ and AutoRound say of their matrices, whose codes lie in columns of words.
#ifndef NG_CORE_FORMATS_QUANTISED_METHODS_PACKED_COLUMNS_H_
#define NG_CORE_FORMATS_QUANTISED_METHODS_PACKED_COLUMNS_H_

#include <cstdint>

#include "core/formats/quantised/form_finder.h"
#include "ng/status.h"

namespace ng {

struct PackedColumns {
  int64_t bits = 0;
  int64_t group = 0;  // -1: all inputs
  bool layers_differ = false;
  bool zeros_less_one = false;  // they are stored so
  bool symmetric = false;       // all zeros are likely alike
};

// The keys "bits", "group_size" and "sym".
absl::StatusOr<PackedColumns> ReadPackedColumns(const FormFinder& finder, Range<int64_t> bits);

// Inputs that share a factor. scales: [groups, rows]
absl::StatusOr<int64_t> GroupOf(const FormFinder& finder, const TensorInfo& scales, int64_t inputs,
                                const PackedColumns& says);

absl::Status FindGptqMatrices(FormFinder& finder, const PackedColumns& says);
absl::Status FindAwqMatrices(FormFinder& finder, const PackedColumns& says);

}  // namespace ng

#endif  // NG_CORE_FORMATS_QUANTISED_METHODS_PACKED_COLUMNS_H_
