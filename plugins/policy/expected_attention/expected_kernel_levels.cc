// The kernels of each level. Compiled once for each level.
#include <algorithm>
#include <cstdint>

#include "ng/level.h"
#include "plugins/policy/expected_attention/expected_kernel.h"

NG_BEGIN_LEVEL
namespace ng {
namespace {

using V = level::Vec16;
constexpr int kKeys = 4;  // that share what is loaded of the queries

void ScoreKeys(const FutureQueries& queries, const float* const* keys, float* const* scores) {
  V sums[kKeys];
  for (V& sum : sums) sum = V::Set(0.0F);
  for (int64_t begin = 0; begin < queries.head_dim; begin += 16) {
    V factors[kKeys];
    for (V& factor : factors) factor = V::Load(queries.mean + begin);
    const int64_t end = std::min(queries.head_dim, begin + 16);
    for (int64_t row = 0; row < end; ++row) {  // below the diagonal all is zero
      const V spread = V::Load(queries.spread + row * queries.width + begin);
      for (int k = 0; k < kKeys; ++k) {
        factors[k] = V::MulAdd(V::Set(keys[k][row]), spread, factors[k]);
      }
    }
    for (int k = 0; k < kKeys; ++k) {
      const V part = V::LoadFirst(keys[k] + begin, static_cast<int>(end - begin));
      sums[k] = V::MulAdd(factors[k], part, sums[k]);
    }
  }
  for (int k = 0; k < kKeys; ++k) *scores[k] = sums[k].Sum();
}

void Score(const FutureQueries& queries, const float* keys, int64_t stride, int64_t n_keys,
           float* scores) {
  for (int64_t first = 0; first < n_keys; first += kKeys) {
    const float* some[kKeys];
    float* to[kKeys];
    for (int64_t k = 0; k < kKeys; ++k) {  // the last key may be there several times
      const int64_t key = std::min(first + k, n_keys - 1);
      some[k] = keys + key * stride;
      to[k] = scores + key;
    }
    ScoreKeys(queries, some, to);
  }
}

}  // namespace

template <>
const ExpectedKernel& ExpectedKernel::At<kLevel>() {
  static constexpr ExpectedKernel kKernel = {Score};
  return kKernel;
}

}  // namespace ng
NG_END_LEVEL
