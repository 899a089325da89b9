// How the flash kernel multiplies what a cache stores, codec by codec (flash_kernel.h).
// Included between a level's target macros. No include guard.
//
// A step is what one load unpacks: 16 columns (keys in K, dimensions in V) of kStep elements that
// are added up (dimensions in K, keys in V). A row of the other factor (a query, a row of weights)
// holds kStep elements for it. Each lane struct says, for one codec:
//   kScaled                    whether a tile begins with the scales of its 16 tokens
//   kWide                      whether the tiles were unpacked before
//   Element                    what the other factor is kept as
//   Probabilities              how the softmax leaves it (for V): Narrow and Widen
//   Columns, Load, LoadFirst   a step of all 16 columns, of the first n with zeros beyond
//   KeepFirstElement, KeepSecondElement   with the other element zero in every column
//   Factor, LoadFactor         a row's elements, in every lane
//   Zero, MulAdd, Total        kAccumulators Accumulators, and the 16 sums they stand for
//   Narrow, Widen              16 f32 as Elements (and as what those are worth), and back

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ng/vec16.h"

namespace ng {

// Sums in f32.
template <class V>
struct FloatSums {
  static constexpr bool kScaled = false;
  static constexpr bool kWide = false;
  using Accumulator = V;
  static NG_INLINE V Zero() { return V::Set(0.0F); }
};

// Rows of f32.
template <class V>
struct FloatFactors : FloatSums<V> {
  using Element = float;
  using Probabilities = FloatFactors;
  static NG_INLINE V Narrow(V x, float* to) {
    x.Store(to);
    return x;
  }
  static NG_INLINE V Widen(const float* from) { return V::Load(from); }
};

template <class V>
struct F32Lanes : FloatFactors<V> {
  static constexpr int kStep = 1;
  static constexpr int kAccumulators = 1;
  using Columns = V;
  using Factor = V;
  static NG_INLINE V Load(const std::byte* p) { return V::Load(reinterpret_cast<const float*>(p)); }
  static NG_INLINE V LoadFirst(const std::byte* p, int n) {
    return V::LoadFirst(reinterpret_cast<const float*>(p), n);
  }
  static NG_INLINE V KeepFirstElement(V columns) { return columns; }
  static NG_INLINE V KeepSecondElement(V columns) { return columns; }
  static NG_INLINE V LoadFactor(const float* x) { return V::Set(*x); }
  static NG_INLINE void MulAdd(V x, V columns, V* sums) {
    sums[0] = V::MulAdd(x, columns, sums[0]);
  }
  static NG_INLINE V Total(const V* sums) { return sums[0]; }
};

// The first n of 16 stored pairs, zeros beyond.
struct Pairs {
  uint16_t bits[2 * 16] = {};
  NG_INLINE Pairs(const std::byte* p, int n) { std::memcpy(bits, p, static_cast<size_t>(n) * 4); }
  NG_INLINE const std::byte* data() const { return reinterpret_cast<const std::byte*>(bits); }
};

// bf16 by f32: a shift or a mask makes f32 of either half of a pair.
template <class V>
struct Bf16Lanes : FloatFactors<V> {
  static constexpr int kStep = 2;
  static constexpr int kAccumulators = 1;
  struct Columns {
    V first;
    V second;
  };
  using Factor = Columns;
  static NG_INLINE Columns Load(const std::byte* p) {
    Columns c;
    V::LoadBf16Pairs(reinterpret_cast<const uint16_t*>(p), &c.first, &c.second);
    return c;
  }
  static NG_INLINE Columns LoadFirst(const std::byte* p, int n) { return Load(Pairs(p, n).data()); }
  static NG_INLINE Columns KeepFirstElement(Columns c) { return {c.first, V::Set(0.0F)}; }
  static NG_INLINE Columns KeepSecondElement(Columns c) { return {V::Set(0.0F), c.second}; }
  static NG_INLINE Factor LoadFactor(const float* x) { return {V::Set(x[0]), V::Set(x[1])}; }
  static NG_INLINE void MulAdd(const Factor& x, const Columns& c, V* sums) {
    sums[0] = V::MulAdd(x.second, c.second, V::MulAdd(x.first, c.first, sums[0]));
  }
  static NG_INLINE V Total(const V* sums) { return sums[0]; }
};

// f16 by f32: pairs are widened as they lie, first and second elements summed in lanes of their
// own.
template <class V>
struct F16Lanes : FloatFactors<V> {
  static constexpr int kStep = 2;
  static constexpr int kAccumulators = 2;
  struct Columns {
    V low;   // pairs 0..7
    V high;  // pairs 8..15
  };
  using Factor = V;
  static NG_INLINE Columns Load(const std::byte* p) {
    const auto* pairs = reinterpret_cast<const uint16_t*>(p);
    return {V::LoadF16(pairs), V::LoadF16(pairs + 16)};
  }
  static NG_INLINE Columns LoadFirst(const std::byte* p, int n) { return Load(Pairs(p, n).data()); }
  static NG_INLINE Columns KeepFirstElement(const Columns& c) {
    return {V::KeepEven(c.low), V::KeepEven(c.high)};
  }
  static NG_INLINE Columns KeepSecondElement(const Columns& c) {
    return {V::KeepOdd(c.low), V::KeepOdd(c.high)};
  }
  static NG_INLINE V LoadFactor(const float* x) { return V::SetPair(x); }
  static NG_INLINE void MulAdd(V x, const Columns& c, V* sums) {
    sums[0] = V::MulAdd(x, c.low, sums[0]);
    sums[1] = V::MulAdd(x, c.high, sums[1]);
  }
  static NG_INLINE V Total(const V* sums) { return V::AddPairs(sums[0], sums[1]); }
};

}  // namespace ng
