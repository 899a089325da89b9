// Compiled once for each instruction set level: see ng/level.h, and LEVELS in CMakeLists.txt.
// Sixteen lanes at a time; what is left over at the end is the same instructions on fewer lanes.
#include "one_pass_kernels.h"

#include "ng/level.h"

NG_BEGIN_LEVEL
namespace ng_example {
namespace {

using V = ng::level::Vec16;

float Dot(const float* a, const float* b, int n) {
  V sum = V::Set(0.0F);
  int i = 0;
  for (; i + 16 <= n; i += 16) sum = V::MulAdd(V::Load(a + i), V::Load(b + i), sum);
  if (i < n) sum = V::MulAdd(V::LoadFirst(a + i, n - i), V::LoadFirst(b + i, n - i), sum);
  return sum.Sum();
}

void AddRow(float correction, float weight, const float* row, float* out, int n) {
  const V c = V::Set(correction);
  const V w = V::Set(weight);
  for (int i = 0; i < n; i += 16) {
    const int left = n - i < 16 ? n - i : 16;
    const V old = V::Mul(V::LoadFirst(out + i, left), c);
    V::MulAdd(w, V::LoadFirst(row + i, left), old).StoreFirst(out + i, left);
  }
}

}  // namespace

template <>
const Kernels& Kernels::At<ng::kLevel>() {
  static constexpr Kernels kKernels = {Dot, AddRow};
  return kKernels;
}

}  // namespace ng_example
NG_END_LEVEL
