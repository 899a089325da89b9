// int8 and int4 by 16-bit integers, for lane structs see flash_lanes-inl.h. Included between a
// level's target macros. No include guard.
//
// The other factor is rounded to 16 bits with a unit for each row: a query over its dimensions,
// weights (the scales of the values multiplied in) over the keys of a split. Sums of products are
// exact: 512 dimensions or 256 keys of at most 32767 * 128 fit 32 bits, and of more dimensions the
// integers are as much smaller.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ng/vec16.h"
#include "plugins/attention/flash/flash_pairs.h"

namespace ng {

// What a row of 16-bit integers stands for.
struct RowUnit {
  float unit;     // of an integer; NaN when a number of the row was not finite
  float inverse;  // the numbers times it are the integers before rounding

  // most: the largest magnitude, NaN when there is one. A row too small for a quotient is as good
  // as zero. n: how many products are summed.
  static NG_INLINE RowUnit For(float most, int n) {
    if (!(most < __builtin_huge_valf())) return {__builtin_nanf(""), 0.0F};
    if (most < 1e-30F) return {0.0F, 0.0F};
    const int largest = n <= 512 ? 32767 : 512 * 32767 / n;
    return {most / static_cast<float>(largest), static_cast<float>(largest) / most};
  }
};

// The unit of 16 lanes at a time.
template <class V>
class UnitFinder {
 public:
  NG_INLINE UnitFinder() : most_(V::Set(0.0F)) {}
  NG_INLINE void Add(V x) { most_ = V::MaxMagnitude(x, most_); }
  NG_INLINE RowUnit Find(int n) const { return RowUnit::For(most_.MaxMagnitudeLane(), n); }

 private:
  V most_;
};

// What lanes of integers share: a step is kPairs pairs of a row.
template <class V, class IntPairs, class Sums, int kPairs>
struct IntPairLanes {
  static constexpr bool kScaled = true;
  static constexpr int kStep = 2 * kPairs;
  static constexpr int kAccumulators = 1;
  using Element = int16_t;
  using Probabilities = FloatFactors<V>;
  using Accumulator = Sums;
  struct Columns {
    IntPairs pairs[kPairs];
  };
  using Factor = Columns;

  static NG_INLINE Factor LoadFactor(const int16_t* x) {
    Factor factor;
    for (int i = 0; i < kPairs; ++i) factor.pairs[i] = IntPairs::Set(x + 2 * i);
    return factor;
  }
  static NG_INLINE Sums Zero() { return Sums::Zero(); }
  static NG_INLINE void MulAdd(const Factor& x, const Columns& c, Sums* sums) {
    for (int i = 0; i < kPairs; ++i) sums[0] = Sums::MulAdd(x.pairs[i], c.pairs[i], sums[0]);
  }
  static NG_INLINE V Total(const Sums* sums) { return sums[0].ToFloat(); }
  static NG_INLINE void Narrow(V x, int16_t* to) { IntPairs::Narrow(x, to); }
};

// Unpacked, for many rows: a step is a pair of 16 bits each, as a cache of bf16 has it, but that
// one of values has whole vectors of dimensions.
template <class V, class IntPairs, class Sums>
struct WideIntLanes : IntPairLanes<V, IntPairs, Sums, 1> {
  static constexpr bool kWide = true;
  using Columns = typename IntPairLanes<V, IntPairs, Sums, 1>::Columns;

  static NG_INLINE Columns Load(const std::byte* p) { return {{IntPairs::Load(p)}}; }
  static NG_INLINE Columns LoadFirst(const std::byte* p, int) { return Load(p); }
};

// As a cache holds them.
template <Codec kCodec, class V, class IntPairs, class Sums>
struct IntLanes : IntPairLanes<V, IntPairs, Sums, 16 / CodecBits(kCodec)> {
  static constexpr bool kWide = false;
  static constexpr int kPairs = 16 / CodecBits(kCodec);
  using Columns = typename IntPairLanes<V, IntPairs, Sums, kPairs>::Columns;
  using Wide = WideIntLanes<V, IntPairs, Sums>;

  static NG_INLINE Columns Load(const std::byte* p) { return Extend(IntPairs::Load(p)); }
  static NG_INLINE Columns LoadFirst(const std::byte* p, int n) {
    return Extend(IntPairs::LoadFirst(p, n));
  }
  // Makes kPairs wide steps, `stride` bytes apart, of the first n columns of a step, zeros beyond.
  static NG_INLINE void Unpack(const std::byte* step, int n, int64_t stride, std::byte* wide) {
    const Columns c = n == 16 ? Load(step) : LoadFirst(step, n);
    for (int i = 0; i < kPairs; ++i) c.pairs[i].Store(wide + i * stride);
  }

 private:
  static NG_INLINE Columns Extend(IntPairs words) {
    Columns c;
    if constexpr (kCodec == Codec::kInt8) {
      c.pairs[0] = IntPairs::template Field<0, 8>(words);
      c.pairs[1] = IntPairs::template Field<8, 8>(words);
    } else {
      c.pairs[0] = IntPairs::template Field<0, 4>(words);
      c.pairs[1] = IntPairs::template Field<4, 4>(words);
      c.pairs[2] = IntPairs::template Field<8, 4>(words);
      c.pairs[3] = IntPairs::template Field<12, 4>(words);
    }
    return c;
  }
};

// The lanes for more rows than a block's; floats are read as they are.
template <class L>
struct ManyRows {
  using Lanes = L;
};
template <Codec kCodec, class V, class IntPairs, class Sums>
struct ManyRows<IntLanes<kCodec, V, IntPairs, Sums>> {
  using Lanes = WideIntLanes<V, IntPairs, Sums>;
};

}  // namespace ng
