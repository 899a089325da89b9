// The softmax over splits of the keys (flash_kernel.h). Included between a level's target macros.
// No include guard.

#include <cstdint>
#include <cstring>
#include <limits>

#include "ng/vec16.h"
#include "plugins/attention/flash/flash_kernel.h"

namespace ng {

// What the softmax of a row over some of its keys is relative to.
struct Softmax {
  float max;  // of the scores
  float sum;  // of e^(score - max)
};

// Over the vectors of one ISA level. The level itself is the parameter, not its vector: two levels
// may share a vector and yet are compiled apart.
template <class Level>
struct SplitSoftmax {
  using V = typename Level::V;

  // The maximum of the scores of keys [first, n) of a row, which ignores NaN and starts at the
  // lowest finite value: so a -infinity score is a weight of 0 and a NaN score is a NaN in the sum.
  // The scores of the other keys in their first and last 16 become -infinity.
  static float FindMax(float* scores, int first, int n) {
    int i = first / 16 * 16;
    for (int hidden = i; hidden < first; ++hidden) {
      scores[hidden] = -std::numeric_limits<float>::infinity();
    }
    V m = V::Set(-std::numeric_limits<float>::max());
    for (; i + 16 <= n; i += 16) m = V::Max(V::Load(scores + i), m);
    if (i < n) {
      const V tail = V::Load(scores + i).KeepFirst(n - i, -std::numeric_limits<float>::infinity());
      tail.Store(scores + i);
      m = V::Max(tail, m);
    }
    return m.MaxLane();
  }

  // Turns scores into weights e^(score - max), after FindMax: L's Elements in place of the scores.
  template <class L>
  static Softmax Exponentiate(float* scores, int first, int n, float max) {
    constexpr int kTogether = Level::kExpVectors;
    V total = V::Set(0.0F);
    int i = first / 16 * 16;
    for (; i + 16 * (kTogether - 1) < n; i += 16 * kTogether) {
      AddWeights<L, kTogether>(scores, i, max, &total);
    }
    for (; i < n; i += 16) AddWeights<L, 1>(scores, i, max, &total);
    return {max, total.Sum()};
  }

  // The weights of kCount vectors of scores from i on.
  template <class L, int kCount>
  static NG_INLINE void AddWeights(float* scores, int i, float max, V* total) {
    using Vectors = Several<V, kCount>;
    Vectors x;
    for (int c = 0; c < kCount; ++c) x.v[c] = V::Load(scores + i + 16 * c);
    const Vectors weights = ExpOfNonPositive(Vectors::Sub(x, Vectors::Set(max)));
    auto* to = reinterpret_cast<typename L::Element*>(scores) + i;  // never ahead of what is read
    for (int c = 0; c < kCount; ++c) *total = V::Add(*total, L::Narrow(weights.v[c], to + 16 * c));
  }

  // Merges a split's (softmax, out) into what the splits to its left gave. n: a multiple of 16.
  static void Merge(Softmax right, const float* right_out, int64_t n, Softmax* left,
                    float* left_out) {
    const float max = left->max > right.max ? left->max : right.max;
    const V a = ExpOfNonPositive(V::Set(left->max - max));
    const V b = ExpOfNonPositive(V::Set(right.max - max));
    for (int64_t d = 0; d < n; d += 16) {
      V::MulAdd(V::Load(right_out + d), b, V::Mul(V::Load(left_out + d), a)).Store(left_out + d);
    }
    left->max = max;
    float sum[16];  // every lane the same
    V::MulAdd(V::Set(right.sum), b, V::Mul(V::Set(left->sum), a)).Store(sum);
    left->sum = sum[0];
  }

  // A sink is a score more, which has no value. Returns what it makes of out.
  static float AddSink(float sink, Softmax* row) {
    const float max = row->max > sink ? row->max : sink;
    float factors[2][16];  // every lane the same
    ExpOfNonPositive(V::Set(row->max - max)).Store(factors[0]);
    ExpOfNonPositive(V::Set(sink - max)).Store(factors[1]);
    *row = {max, row->sum * factors[0][0] + factors[1][0]};
    return factors[0][0];
  }

  // Turns the scores of a row's keys [first, n) into the probabilities that made its output: the
  // weights of each split once more, to the bit, relative to the softmax of the whole row. Those of
  // the keys before become 0.
  template <class L>
  static void FinishCapture(Softmax row, int64_t first, int64_t n, float* scores) {
    std::memset(scores, 0, static_cast<size_t>(first) * sizeof(float));
    for (int64_t split = first / kSplitKeys * kSplitKeys; split < n; split += kSplitKeys) {
      const int n_keys = static_cast<int>(n - split < kSplitKeys ? n - split : kSplitKeys);
      const int begin = static_cast<int>(first > split ? first - split : 0);
      float work[kSplitKeys];
      std::memcpy(work, scores + split, static_cast<size_t>(n_keys) * sizeof(float));
      const Softmax softmax = Exponentiate<L>(work, begin, n_keys, FindMax(work, begin, n_keys));
      const V factor = V::Div(ExpOfNonPositive(V::Set(softmax.max - row.max)), V::Set(row.sum));
      const auto* weights = reinterpret_cast<const typename L::Element*>(work);
      for (int i = begin / 16 * 16; i < n_keys; i += 16) {
        const int kept = n_keys - i < 16 ? n_keys - i : 16;
        V::Mul(L::Widen(weights + i), factor).StoreFirst(scores + split + i, kept);
      }
    }
  }
};

}  // namespace ng
