#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "ng/vec16.h"
#include "tests/core/kernels/vec16_ops.h"

NG_BEGIN_TARGET_AVX2
#include "tests/core/kernels/vec16_ops-inl.h"

namespace ng {

void EvaluateAvx2Vec16(const Vec16Inputs& in, Vec16Results* out) { Evaluate<avx2::Vec16>(in, out); }

}  // namespace ng
NG_END_TARGET
