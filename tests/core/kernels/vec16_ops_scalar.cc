#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "ng/vec16.h"
#include "tests/core/kernels/vec16_ops-inl.h"
#include "tests/core/kernels/vec16_ops.h"

namespace ng {

void EvaluateScalarVec16(const Vec16Inputs& in, Vec16Results* out) {
  Evaluate<scalar::Vec16>(in, out);
}

}  // namespace ng
