// The loops over a 16-lane vector type V (ng/vec16.h). Each level's translation unit includes this
// file between its target macros; everything here is a template over V, so that no two levels share
// a symbol. No include guard: each translation unit includes it once.

#include "apps/bench/loops.h"
#include "ng/vec16.h"

namespace ng::bench {

// Reads kStreams parts of the range side by side, kLines cache lines of each in turn, and
// prefetches the lines that are kAhead lines further on.
template <class V, int kStreams, int kLines, int kAhead>
float ReadSum(const float* data, int64_t n_floats) {
  static_assert(kReadUnit % (kStreams * kLines * 16) == 0);
  const int64_t stride = n_floats / kStreams;
  V sum[kStreams * kLines];
#pragma GCC unroll 16
  for (V& s : sum) s = V::Set(0.0F);
  for (int64_t i = 0; i < stride; i += kLines * 16) {
#pragma GCC unroll 16
    for (int s = 0; s < kStreams; ++s) {
#pragma GCC unroll 16
      for (int l = 0; l < kLines; ++l) {
        const float* line = data + s * stride + i + l * 16;
        if constexpr (kAhead > 0) __builtin_prefetch(line + kAhead * 16);
        sum[s * kLines + l] = V::Add(sum[s * kLines + l], V::Load(line));
      }
    }
  }
  float total = 0.0F;
  for (const V& s : sum) total += s.Sum();
  return total;
}

// kSums chains of multiply-adds: enough to hide their latency, and few enough to stay in registers.
template <class V, int kSums>
float MultiplyAdd(int64_t n_steps) {
  const V a = V::Set(0.5F);
  V sum[kSums];
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) sum[i] = V::Set(static_cast<float>(i));
  for (int64_t step = 0; step < n_steps; ++step) {
#pragma GCC unroll 32
    for (V& s : sum) s = V::MulAdd(s, a, a);
  }
  float total = 0.0F;
  for (const V& s : sum) total += s.Sum();
  return total;
}

template <class V, int kSums>
Loops MakeLoops() {
  const ComputeLoop f32 = {MultiplyAdd<V, kSums>, kSums * 16 * 2};
  return {
      .read = {ReadSum<V, 1, 4, 0>, ReadSum<V, 1, 4, 64>, ReadSum<V, 2, 2, 0>, ReadSum<V, 4, 1, 0>},
      .f32 = f32,
      .bf16 = f32,
      .int8 = f32};
}

}  // namespace ng::bench
