// The kernels in plain C++ of types whose codes stand for floats.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/kernels/code_kernels.h"
#include "core/kernels/codes16.h"
#include "core/kernels/dot16.h"
#include "core/kernels/float_codes-inl.h"
#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

namespace ng {
namespace {

struct Level {
  using Codes = scalar::Codes16;
  static constexpr int kRows = 3;
  static constexpr int kFewRows = 1;
  static constexpr int kBlocks = 1;
};

}  // namespace

template <>
void SetCodeKernels<IsaLevel::kScalar>(KernelTable& table) {
  SetCodeMatmuls<Level>(table);
}

}  // namespace ng
