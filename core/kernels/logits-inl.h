// What sampling computes over a row of logits, block by block: the kernels behind
// core/runtime/dense_logits. Included by kernels-inl.h, between a level's target macros; templates
// over its vector type V.

#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

namespace ng {

// Up to 16 logits from x[i] on, -infinity in the lanes beyond n.
template <class V>
NG_INLINE V LoadLogits(const float* x, int64_t i, int64_t n) {
  if (i + 16 <= n) return V::Load(x + i);
  const int count = static_cast<int>(n - i);
  return V::LoadFirst(x + i, count).KeepFirst(count, -__builtin_huge_valf());
}

template <class V>
NG_INLINE V LoadWeights(const float* weights, int64_t i, int64_t n) {
  if (i + 16 <= n) return V::Load(weights + i);
  return V::LoadFirst(weights + i, static_cast<int>(n - i));
}

template <class V>
NG_INLINE void StoreLanes(V v, float* p, int64_t i, int64_t n) {
  if (i + 16 <= n) {
    v.Store(p + i);
  } else {
    v.StoreFirst(p + i, static_cast<int>(n - i));
  }
}

// Calls block(begin, end) for each block of the row. The compiler sees that nearly all of them are
// whole, so that it unrolls their loops and checks no end there.
template <class Block>
NG_INLINE void ForEachBlock(int64_t n, Block&& block) {
  int64_t begin = 0;
  for (; begin + kLogitBlock <= n; begin += kLogitBlock) block(begin, begin + kLogitBlock);
  if (begin < n) block(begin, n);
}

template <class V>
struct WeightTotals {
  V weights;
  V products;
};

// The logits from `begin` to below `end`. A whole block checks no end.
template <class V, bool kSum, bool kWhole>
NG_INLINE WeightTotals<V> WeighBlock(const float* logits, float* weights, float max, int64_t begin,
                                     int64_t end) {
  using Two = Several<V, 2>;
  WeightTotals<V> totals = {V::Set(0.0F), V::Set(0.0F)};
  for (int64_t i = begin; i < end; i += 32) {
    const bool both = kWhole || i + 16 < end;
    Two x;
    x.v[0] = kWhole ? V::Load(logits + i) : LoadLogits<V>(logits, i, end);
    x.v[1] = V::Set(-__builtin_huge_valf());
    if (both) x.v[1] = kWhole ? V::Load(logits + i + 16) : LoadLogits<V>(logits, i + 16, end);
    const Two below = Two::Sub(x, Two::Set(max));
    const Two weight = ExpOfNonPositive(below);
    if (kWhole) {
      weight.v[0].Store(weights + i);
      weight.v[1].Store(weights + i + 16);
    } else {
      StoreLanes(weight.v[0], weights, i, end);
      if (both) StoreLanes(weight.v[1], weights, i + 16, end);
    }
    totals.weights = V::Add(V::Add(totals.weights, weight.v[0]), weight.v[1]);
    if constexpr (kSum) {
      const Two product = Two::Mul(weight, Two::Max(Two::Set(-86.98F), below));
      totals.products = V::Add(V::Add(totals.products, product.v[0]), product.v[1]);
    }
  }
  return totals;
}

// With `kSum` it also gives what WeightedSum gives, to the bit. The lanes of a block are summed
// behind the next block, whose work fills the time in which they wait for each other.
template <class V, bool kSum>
double WeighBlocks(const LogitRow& row, float max) {
  const float* const logits = row.logits;
  float* const weights = row.weights;
  double total = 0.0;
  const auto finish = [&](int64_t end, const WeightTotals<V>& totals)
      __attribute__((always_inline)) {
    row.block_sums[(end - 1) / kLogitBlock] = totals.weights.Sum();
    if constexpr (kSum) total += totals.products.Sum();
  };
  WeightTotals<V> before = {V::Set(0.0F), V::Set(0.0F)};
  int64_t begin = 0;
  for (; begin + kLogitBlock <= row.n; begin += kLogitBlock) {
    const WeightTotals<V> totals =
        WeighBlock<V, kSum, true>(logits, weights, max, begin, begin + kLogitBlock);
    if (begin > 0) finish(begin, before);
    before = totals;
  }
  if (begin > 0) finish(begin, before);
  if (begin < row.n) {
    finish(row.n, WeighBlock<V, kSum, false>(logits, weights, max, begin, row.n));
  }
  return total;
}

template <class V>
void WeighLogits(const LogitRow& row, float max) {
  WeighBlocks<V, false>(row, max);
}

template <class V>
double WeighAndSum(const LogitRow& row, float max) {
  return WeighBlocks<V, true>(row, max);
}

// The order of a row: what its logits are compared by.
template <class V>
struct ByLogit {
  NG_INLINE explicit ByLogit(const LogitRow& /*row*/) {}
  NG_INLINE V operator()(V logits) const { return logits; }
};

template <class V>
struct ByNearness {
  NG_INLINE explicit ByNearness(const LogitRow& row) : centre(V::Set(*row.centre)) {}
  NG_INLINE V operator()(V logits) const {
    return V::Min(V::Sub(logits, centre), V::Sub(centre, logits));
  }
  V centre;
};

// Masses above bars. The lanes are added to doubles from time to time. Otherwise many small weights
// that are added one by one to a large sum would be lost.
inline constexpr int64_t kBlocksPerMass = 64;

// Above the float before a bar is at least the bar: in this form one instruction of AVX-512 selects
// and adds.
template <class V>
NG_INLINE V BelowBar(float bar) {
  return V::Set(__builtin_nextafterf(bar, -__builtin_huge_valf()));
}

// It takes kBars bars at a time: as many as there are registers for their sums.
template <class V, int kBars, class Order>
void MassInOrder(const LogitRow& row, int64_t every, const float* bars, double* masses) {
  static_assert(kMassBars % kBars == 0);
  const Order order(row);
  const int64_t stride = every * kLogitBlock;
  for (int j = 0; j < kMassBars; ++j) masses[j] = 0.0;
  for (int64_t group = 0; group < row.n; group += kBlocksPerMass * stride) {
    for (int first = 0; first < kMassBars; first += kBars) {
      V below_bars[kBars];
      V sums[kBars];
      for (int j = 0; j < kBars; ++j) {
        below_bars[j] = BelowBar<V>(bars[first + j]);
        sums[j] = V::Set(0.0F);
      }
      const auto add = [&](int64_t begin, int64_t end) __attribute__((always_inline)) {
        for (int64_t i = begin; i < end; i += 16) {
          const V places = order(LoadLogits<V>(row.logits, i, end));
          const V weights = LoadWeights<V>(row.weights, i, end);
          for (int j = 0; j < kBars; ++j) {
            sums[j] = V::SelectLess(below_bars[j], places, V::Add(sums[j], weights), sums[j]);
          }
        }
      };
      int64_t begin = group;
      int64_t b = 0;
      for (; b < kBlocksPerMass && begin + kLogitBlock <= row.n; ++b, begin += stride) {
        add(begin, begin + kLogitBlock);
      }
      if (b < kBlocksPerMass && begin < row.n) add(begin, row.n);
      for (int j = 0; j < kBars; ++j) masses[first + j] += sums[j].Sum();
    }
  }
}

template <class V, int kBars>
void MassAtLeast(const LogitRow& row, int64_t every, const float* bars, double* masses) {
  if (row.centre == nullptr) return MassInOrder<V, kBars, ByLogit<V>>(row, every, bars, masses);
  MassInOrder<V, kBars, ByNearness<V>>(row, every, bars, masses);
}

template <class V>
int64_t ListWithin(const LogitRow& row, float low, float high, int32_t* ids) {
  int64_t n_listed = 0;
  for (int64_t i = 0; i < row.n; i += 16) {
    const V x = LoadLogits<V>(row.logits, i, row.n);
    uint32_t within = V::LessBits(x, V::Set(high)) & ~V::LessBits(x, V::Set(low));
    for (; within != 0; within &= within - 1) {
      ids[n_listed++] = static_cast<int32_t>(i + __builtin_ctz(within));
    }
  }
  return n_listed;
}

template <class V>
int64_t DropBelow(const LogitRow& row, float bar, float* kept) {
  const V limit = V::Set(bar);
  const V never = V::Set(-__builtin_huge_valf());
  int64_t n_left = 0;
  for (int64_t begin = 0; begin < row.n; begin += kLogitBlock) {
    const int64_t end = begin + kLogitBlock < row.n ? begin + kLogitBlock : row.n;
    V sum = V::Set(0.0F);
    V count = V::Set(0.0F);
    V max = never;
    for (int64_t i = begin; i < end; i += 16) {
      const V x = LoadLogits<V>(row.logits, i, end);
      const V left = V::SelectLess(x, limit, never, x);
      const V weights = LoadWeights<V>(row.weights, i, end);
      const V weight = V::SelectLess(x, limit, V::Set(0.0F), weights);
      StoreLanes(left, kept, i, end);
      StoreLanes(weight, row.weights, i, end);
      count = V::Add(count, V::SelectLess(x, limit, V::Set(0.0F), V::Set(1.0F)));
      sum = V::Add(sum, weight);
      max = V::Max(max, left);
    }
    row.block_sums[begin / kLogitBlock] = sum.Sum();
    row.block_max[begin / kLogitBlock] = max.MaxLane();
    n_left += static_cast<int64_t>(count.Sum());
  }
  return n_left;
}

template <class V, bool kWeighed>
int64_t KeepMarkedLogits(const LogitRow& row, const uint64_t* bits, float* kept) {
  const V never = V::Set(-__builtin_huge_valf());
  V count = V::Set(0.0F);  // a lane counts exactly up to 2^24, which is 2^28 logits
  ForEachBlock(
      row.n, [&](int64_t begin, int64_t end) __attribute__((always_inline)) {
        uint64_t marks = bits[begin / kLogitBlock];
        V max = never;
        V sum = V::Set(0.0F);
        for (int64_t i = begin; i < end; i += 16, marks >>= 16) {
          const V x = LoadLogits<V>(row.logits, i, end);
          const V left = V::SelectBits(static_cast<uint32_t>(marks), x, never);
          StoreLanes(left, kept, i, end);
          count = V::Add(count, V::SelectLess(never, left, V::Set(1.0F), V::Set(0.0F)));
          max = V::Max(max, left);
          if constexpr (kWeighed) {
            const V weight = V::SelectBits(static_cast<uint32_t>(marks),
                                           LoadWeights<V>(row.weights, i, end), V::Set(0.0F));
            StoreLanes(weight, row.weights, i, end);
            sum = V::Add(sum, weight);
          }
        }
        row.block_max[begin / kLogitBlock] = max.MaxLane();
        if constexpr (kWeighed) row.block_sums[begin / kLogitBlock] = sum.Sum();
      });
  return static_cast<int64_t>(count.Sum());
}

template <class V>
int64_t KeepMarkedWeights(const LogitRow& row, const uint64_t* bits) {
  float* const weights = row.weights;
  ForEachBlock(
      row.n, [&](int64_t begin, int64_t end) __attribute__((always_inline)) {
        uint64_t marks = bits[begin / kLogitBlock];
        V sum = V::Set(0.0F);
        for (int64_t i = begin; i < end; i += 16, marks >>= 16) {
          const V weight = V::SelectBits(static_cast<uint32_t>(marks),
                                         LoadWeights<V>(weights, i, end), V::Set(0.0F));
          StoreLanes(weight, weights, i, end);
          sum = V::Add(sum, weight);
        }
        row.block_sums[begin / kLogitBlock] = sum.Sum();
      });
  return 0;
}

template <class V>
int64_t KeepMarked(const LogitRow& row, const uint64_t* bits, float* kept) {
  if (kept == nullptr) return KeepMarkedWeights<V>(row, bits);
  return row.weights == nullptr ? KeepMarkedLogits<V, false>(row, bits, kept)
                                : KeepMarkedLogits<V, true>(row, bits, kept);
}

// The masses have the bits that MassInOrder gives.
template <class V>
void MarkNear(const LogitRow& row, const float* bars, const NearMarks& marks) {
  const ByNearness<V> nearness(row);
  V below_bars[kNearBars];
  for (int j = 0; j < kNearBars; ++j) {
    below_bars[j] = BelowBar<V>(bars[j]);
    marks.masses[j] = 0.0;
  }
  constexpr int64_t kGroup = kBlocksPerMass * kLogitBlock;
  for (int64_t group = 0; group < row.n; group += kGroup) {
    V sums[kNearBars];
    for (V& sum : sums) sum = V::Set(0.0F);
    const auto mark = [&](int64_t begin, int64_t end) __attribute__((always_inline)) {
      uint64_t above = 0;
      uint64_t within = 0;
      for (int64_t i = begin; i < end; i += 16) {
        const V places = nearness(LoadLogits<V>(row.logits, i, end));
        const V weights = LoadWeights<V>(row.weights, i, end);
        for (int j = 0; j < kNearBars; ++j) {
          sums[j] = V::SelectLess(below_bars[j], places, V::Add(sums[j], weights), sums[j]);
        }
        const uint64_t high = V::LessBits(below_bars[0], places);
        const uint64_t low = V::LessBits(below_bars[kNearBars - 1], places);
        above |= high << (i - begin);
        within |= (low & ~high) << (i - begin);
      }
      marks.above[begin / kLogitBlock] = above;
      marks.within[begin / kLogitBlock] = within;
    };
    const int64_t end = group + kGroup < row.n ? group + kGroup : row.n;
    int64_t begin = group;
    for (; begin + kLogitBlock <= end; begin += kLogitBlock) mark(begin, begin + kLogitBlock);
    if (begin < end) mark(begin, end);
    for (int j = 0; j < kNearBars; ++j) marks.masses[j] += sums[j].Sum();
  }
}

// Sums of a block's lanes are added to doubles, so that none of them gets lost beside a large one.
template <class V>
void Moments(const LogitRow& row, float centre, double* sums) {
  const V never = V::Set(-__builtin_huge_valf());
  const V zero = V::Set(0.0F);
  for (int j = 0; j < 3; ++j) sums[j] = 0.0;
  for (int64_t begin = 0; begin < row.n; begin += kLogitBlock) {
    const int64_t end = begin + kLogitBlock < row.n ? begin + kLogitBlock : row.n;
    V count = zero;
    V first = zero;
    V second = zero;
    for (int64_t i = begin; i < end; i += 16) {
      const V x = LoadLogits<V>(row.logits, i, end);
      const V off = V::SelectLess(never, x, V::Sub(x, V::Set(centre)), zero);
      count = V::Add(count, V::SelectLess(never, x, V::Set(1.0F), zero));
      first = V::Add(first, off);
      second = V::MulAdd(off, off, second);
    }
    sums[0] += count.Sum();
    sums[1] += first.Sum();
    sums[2] += second.Sum();
  }
}

template <class V>
double WeightedSum(const LogitRow& row, float max) {
  const V zero = V::Set(0.0F);
  double total = 0.0;
  for (int64_t begin = 0; begin < row.n; begin += kLogitBlock) {
    const int64_t end = begin + kLogitBlock < row.n ? begin + kLogitBlock : row.n;
    V sum = zero;
    for (int64_t i = begin; i < end; i += 16) {
      const V weights = LoadWeights<V>(row.weights, i, end);
      const V below = V::Sub(LoadLogits<V>(row.logits, i, end), V::Set(max));
      sum = V::Add(sum, V::SelectLess(zero, weights, V::Mul(weights, below), zero));
    }
    total += sum.Sum();
  }
  return total;
}

// Every logit is divided by `divisor`, or kept as it is without `kDivide`.
template <class V, bool kDivide>
bool BlockMax(const LogitRow& row, float divisor, float* quotients) {
  const V infinity = V::Set(__builtin_huge_valf());
  const V one = V::Set(1.0F);
  V bad = V::Set(0.0F);  // 1 in each lane that has seen a NaN or +infinity
  ForEachBlock(
      row.n, [&](int64_t begin, int64_t end) __attribute__((always_inline)) {
        V largest = V::Set(-__builtin_huge_valf());
        for (int64_t i = begin; i < end; i += 16) {
          V x = LoadLogits<V>(row.logits, i, end);
          if constexpr (kDivide) {
            x = V::Div(x, V::Set(divisor));
            StoreLanes(x, quotients, i, end);
          }
          bad = V::SelectLess(x, infinity, bad, one);
          largest = V::Max(largest, x);
        }
        row.block_max[begin / kLogitBlock] = largest.MaxLane();
      });
  return bad.Sum() == 0.0F;
}

template <class V>
bool DivideLogits(const LogitRow& row, float divisor, float* quotients) {
  return BlockMax<V, true>(row, divisor, quotients);
}

template <class V>
bool FindBlockMax(const LogitRow& row) {
  return BlockMax<V, false>(row, 1.0F, nullptr);
}

}  // namespace ng
