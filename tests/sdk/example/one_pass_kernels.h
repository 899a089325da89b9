// The arithmetic of one_pass on an instruction set level.
#ifndef NG_EXAMPLE_ONE_PASS_KERNELS_H_
#define NG_EXAMPLE_ONE_PASS_KERNELS_H_

#include "ng/isa.h"

namespace ng_example {

struct Kernels {
  // The sum of a[i] * b[i]. a, b: [n]
  float (*dot)(const float* a, const float* b, int n);
  // out[i] = out[i] * correction + weight * row[i]. out, row: [n]
  void (*add_row)(float correction, float weight, const float* row, float* out, int n);

  template <ng::IsaLevel>
  static const Kernels& At();  // one for each level: one_pass_kernels.cc
};

}  // namespace ng_example

#endif  // NG_EXAMPLE_ONE_PASS_KERNELS_H_
