// The scores that keys may expect, on an instruction set level.
#ifndef NG_PLUGINS_POLICY_EXPECTED_ATTENTION_EXPECTED_KERNEL_H_
#define NG_PLUGINS_POLICY_EXPECTED_ATTENTION_EXPECTED_KERNEL_H_

#include <cstdint>

#include "ng/isa.h"

namespace ng {

// The queries to come of one head, as scores are made of them.
struct FutureQueries {
  int64_t head_dim = 0;
  int64_t width = 0;              // head_dim, rounded up to a multiple of 16
  const float* mean = nullptr;    // [width], zero behind head_dim
  const float* spread = nullptr;  // [head_dim, width], zero below the diagonal and behind head_dim
};

struct ExpectedKernel {
  // scores[i] = mean . key[i] + key[i] . spread . key[i], each of its key alone. keys: [n_keys,
  // head_dim], `stride` apart
  void (*score)(const FutureQueries& queries, const float* keys, int64_t stride, int64_t n_keys,
                float* scores);

  template <IsaLevel>
  static const ExpectedKernel& At();  // one for each level
};

}  // namespace ng

#endif  // NG_PLUGINS_POLICY_EXPECTED_ATTENTION_EXPECTED_KERNEL_H_
