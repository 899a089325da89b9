// The two products of the flash kernel (flash_kernel.h): a block of query rows against one split of
// the keys. Included between a level's target macros. No include guard.
//
// Both are sums of outer products held in registers: a few rows against a few tiles of 16 keys, one
// step of head dimensions at a time, and rows against vectors of 16 value dimensions, one step of
// keys at a time. How many stand side by side changes no bit, because every lane of a row has
// accumulators of its own. Loops over accumulators are unrolled by order: else GCC clears them in
// memory and lets them pass through it once more.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ng/vec16.h"
#include "plugins/attention/flash/flash_kernel.h"
#include "plugins/attention/flash/flash_scratch.h"

namespace ng {

template <class Level>
struct FlashBlock {
  using V = typename Level::V;
  static constexpr int kBlockRows = Level::kBlockRows;
  static constexpr int kTile = static_cast<int>(kTileTokens);
  static constexpr int kSplitTiles = kSplitKeys / kTile;
  static constexpr int64_t kStepBytes = kTile * 4;  // of 16 columns: what fits 32 bits of each
  static constexpr int64_t kScalesBytes = kTile * int64_t{sizeof(float)};

  // The tiles of one side of a split. Those that the keys do not reach repeat another.
  struct Tiles {
    const std::byte* at[kSplitTiles];
    int64_t tile_bytes;

    // Where byte `pos` of the split lies.
    const std::byte* Find(int64_t pos) const {
      const int64_t tile = pos / tile_bytes;
      return at[tile < kSplitTiles ? tile : kSplitTiles - 1] + pos % tile_bytes;
    }
  };

  struct KeyRange {
    int begin;
    int end;
  };

  // Some keys (kKeys) or values of a split, unpacked into `memory`.
  template <class L, bool kKeys>
  static Tiles Unpack(const Tiles& packed, int width, KeyRange range, float* memory) {
    using Wide = typename L::Wide;
    const int n_columns = kKeys ? kTile : width;
    const int n_steps = (kKeys ? width + L::kStep - 1 : kTile) / L::kStep;
    const int64_t stride = Offset<Wide>(n_columns);
    Tiles wide;
    wide.tile_bytes = kScalesBytes + n_steps * L::kPairs * stride;
    auto* to = reinterpret_cast<std::byte*>(memory);
    for (int t = 0; t < kSplitTiles; ++t) {
      wide.at[t] = to;
      if (t * kTile >= range.end || (t + 1) * kTile <= range.begin) continue;
      const std::byte* from = packed.at[t];
      Scales(from).Store(reinterpret_cast<float*>(to));
      from += kScalesBytes;
      to += kScalesBytes;
      for (int step = 0; step < n_steps; ++step) {
        for (int c = 0; c < n_columns; c += 16) {
          const int n = n_columns - c < 16 ? n_columns - c : 16;
          L::Unpack(from + Offset<L>(c), n, stride, to + Offset<Wide>(c));
        }
        from += Offset<L>(n_columns);
        to += L::kPairs * stride;
      }
    }
    return wide;
  }

  // A side to multiply, and one that is fetched meanwhile, byte for byte, in the order in which it
  // lies in memory: the processor foresees neither. Nothing to fetch: nullptr.
  struct Operand {
    const Tiles* tiles;
    const Tiles* ahead;
  };

  const float* q;             // L::Elements [steps][kBlockRows][kStep], by the codec of K
  const float* q_units;       // [n_rows], where K is scaled
  float* scores;              // [n_rows][kSplitKeys]; later weights: L::Elements by the codec of V
  RowUnit units[kBlockRows];  // of the weights, where V is scaled
  float* out;                 // [n_rows][out_stride]
  int64_t out_stride;         //
  HeadWidths widths;          //
  int n_rows;                 // 1..kBlockRows
  int first[kBlockRows];      // of the split's keys, the first that each row sees,
  int n_visible[kBlockRows];  // and the end of those that it sees; both never less than before
  Operand k;                  //
  Operand v;                  //

  // Rows that are multiplied at a time, so that accumulators and columns fit the registers.
  template <class L>
  static constexpr int MostRows() {
    const int rows = Level::template Accumulators<L>() / L::kAccumulators;
    return rows < kBlockRows ? rows : kBlockRows;
  }
  // Vectors of columns side by side: fewer rows leave registers for more.
  template <class L>
  static constexpr int Columns(int rows) {
    const int columns = Level::template Accumulators<L>() / (L::kAccumulators * rows);
    return columns < Level::kMostColumns ? columns : Level::kMostColumns;
  }

  // scores = q . k for all rows and the keys that any of them may see.
  template <class L>
  void Score() const {
    constexpr int kMost = MostRows<L>();
    for (int row = 0; row < n_rows; row += kMost) ScoreRows<L, kMost>(row);
  }

  // The maximum of a row's scores. Those of keys that it does not see become -infinity.
  float FindMax(int row) const {
    return SplitSoftmax<Level>::FindMax(scores + row * kSplitKeys, first[row], n_visible[row]);
  }

  // Turns the scores of a row, of which `max` is FindMax, into weights as SumValues wants them;
  // where V is scaled, what is left to do is RoundWeights.
  template <class L>
  Softmax Weigh(int row, float max) {
    const int end = n_visible[row];
    const Softmax softmax = SplitSoftmax<Level>::template Exponentiate<typename L::Probabilities>(
        scores + row * kSplitKeys, first[row], end, max);
    if constexpr (L::kScaled) {
      UnitFinder<V> finder;
      for (int i = FirstOfTile(first[row]); i < end; i += kTile) finder.Add(ScaledWeights(row, i));
      units[row] = finder.Find(kSplitKeys);
    }
    return softmax;
  }

  // Multiplies the weights of a row by the scales of V and rounds them to integers; those of keys
  // that only other rows see become 0.
  template <class L>
  void RoundWeights(int row) const {
    const V inverse = V::Set(units[row].inverse);
    // Never ahead of what is read.
    auto* integers = reinterpret_cast<typename L::Element*>(scores + row * kSplitKeys);
    int i = FirstOfTile(first[0]);
    const int begin = first[row] < n_visible[row] ? FirstOfTile(first[row]) : n_visible[n_rows - 1];
    for (; i < begin; i += kTile) L::Narrow(V::Set(0.0F), integers + i);
    for (; i < n_visible[row]; i += kTile) {
      L::Narrow(V::Mul(ScaledWeights(row, i), inverse), integers + i);
    }
    for (; i < n_visible[n_rows - 1]; i += kTile) L::Narrow(V::Set(0.0F), integers + i);
  }

  // out = the sum of weight * v over the keys that each row may see, in order.
  template <class L>
  void SumValues() const {
    constexpr int kMost = MostRows<L>();
    for (int row = 0; row < n_rows; row += kMost) SumRows<L, kMost>(row);
  }

 private:
  // Rows [row, row + kRows), or the fewer that there are.
  template <class L, int kRows>
  void ScoreRows(int row) const {
    if constexpr (kRows > 1) {
      if (n_rows - row < kRows) return ScoreRows<L, kRows - 1>(row);
    }
    // Tiles side by side make better use of what is in a cache; from memory, one after the other
    // comes faster.
    constexpr int kTiles = Columns<L>(kRows);
    const int n_tiles = (n_visible[row + kRows - 1] + kTile - 1) / kTile;
    int tile = first[row] / kTile;
    if (k.ahead == nullptr) {
      for (; tile + kTiles <= n_tiles; tile += kTiles) ScoreTiles<L, kRows, kTiles>(row, tile);
    }
    for (; tile < n_tiles; ++tile) ScoreTiles<L, kRows, 1>(row, tile);
  }

  template <class L, int kRows, int kTiles>
  NG_INLINE void ScoreTiles(int row, int tile) const {
    typename L::Accumulator sums[kRows][kTiles][L::kAccumulators];
    Clear<L>(&sums[0][0][0], kRows * kTiles * L::kAccumulators);
    const std::byte* at[kTiles];
    for (int t = 0; t < kTiles; ++t) at[t] = k.tiles->at[tile + t] + DataOffset<L>();
    const auto* x = reinterpret_cast<const typename L::Element*>(q) + row * L::kStep;
    const Tiles& ahead = k.ahead == nullptr ? *k.tiles : *k.ahead;
    const std::byte* fetched = ahead.at[tile];
    const int64_t n_fetched = FetchedBytes<L>(ahead, widths.k);
    const int64_t end = int64_t{(widths.k + L::kStep - 1) / L::kStep} * kStepBytes;
    for (int64_t step = 0; step < end; step += kStepBytes) {
      typename L::Columns keys[kTiles];
      for (int t = 0; t < kTiles; ++t) keys[t] = L::Load(at[t] + step);
      if constexpr (kTiles == 1) Prefetch<L>(fetched, n_fetched);
      fetched += n_fetched;
      for (int r = 0; r < kRows; ++r) {
        const typename L::Factor factor = L::LoadFactor(x + r * L::kStep);
        for (int t = 0; t < kTiles; ++t) L::MulAdd(factor, keys[t], sums[r][t]);
      }
      x += kBlockRows * L::kStep;
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int t = 0; t < kTiles; ++t) {
        V total = L::Total(sums[r][t]);
        if constexpr (L::kScaled) {
          total = V::Mul(V::Mul(total, Scales(k.tiles->at[tile + t])), V::Set(q_units[row + r]));
        }
        total.Store(scores + (row + r) * kSplitKeys + (tile + t) * kTile);
      }
    }
  }

  // Rows as in ScoreRows.
  template <class L, int kRows>
  void SumRows(int row) const {
    if constexpr (kRows > 1) {
      if (n_rows - row < kRows) return SumRows<L, kRows - 1>(row);
    }
    constexpr int kVectors = Columns<L>(kRows);
    int dim = 0;
    for (; dim + kVectors * 16 <= widths.v; dim += kVectors * 16) {
      SumDims<L, kRows, kVectors, false>(row, dim);
    }
    for (; dim + 16 <= widths.v; dim += 16) SumDims<L, kRows, 1, false>(row, dim);
    if (dim < widths.v) SumDims<L, kRows, 1, true>(row, dim);
  }

  template <class L, bool kPartial>
  NG_INLINE typename L::Columns LoadValues(const std::byte* p, int dim) const {
    if constexpr (kPartial) return L::LoadFirst(p, widths.v - dim);
    return L::Load(p);
  }

  // Dimensions [dim, dim + 16 * kVectors). A value that a query may not see is never multiplied,
  // not even by a zero weight: it may be NaN. So each row walks the steps that the rows after it do
  // not see, then all rows the whole steps that all see, then each row its own few more. Scaled
  // values are integers, and weights zero: there all walk what any of them may see.
  template <class L, int kRows, int kVectors, bool kPartial>
  NG_INLINE void SumDims(int row, int dim) const {
    typename L::Accumulator sums[kRows][kVectors][L::kAccumulators];
    const int last = row + kRows - 1;
    const int begin = L::kScaled ? FirstOfTile(first[row]) : RoundUp<L>(first[last]);
    const int end = L::kScaled ? RoundUp<L>(n_visible[last]) : n_visible[row] / L::kStep * L::kStep;
    bool cleared = true;
    if constexpr (!L::kScaled) {
      if (begin > 0) {
        SumBefore<L, kRows, kVectors, kPartial>(row, dim, begin, sums);
        cleared = false;
      }
    }
    if (cleared) Clear<L>(&sums[0][0][0], kRows * kVectors * L::kAccumulators);
    const auto* weights = reinterpret_cast<const typename L::Element*>(scores + row * kSplitKeys);
    constexpr size_t kRowBytes = kSplitKeys * sizeof(float);
    constexpr size_t kRowElements = kRowBytes / sizeof(typename L::Element);
    const int64_t stride = Offset<L>(widths.v);  // of a step
    const Tiles& ahead = v.ahead == nullptr ? *v.tiles : *v.ahead;
    const int64_t n_fetched = FetchedBytes<L>(ahead, widths.v);
    for (int key = FirstOfTile(begin); key < end; key += kTile) {
      const int tile_begin = begin > key ? begin : key;
      const int tile_end = end < key + kTile ? end : key + kTile;
      const std::byte* at = v.tiles->at[key / kTile] + DataOffset<L>() + Offset<L>(dim) +
                            (tile_begin - key) / L::kStep * stride;
      const int64_t n_before = int64_t{dim} * (kSplitKeys / kTile) + int64_t{key} * kVectors;
      const std::byte* fetched = ahead.Find(n_before / L::kStep * n_fetched);
      for (int j = tile_begin; j < tile_end; j += L::kStep) {
        typename L::Columns values[kVectors];
        for (int c = 0; c < kVectors; ++c) {
          values[c] = LoadValues<L, kPartial>(at + c * kStepBytes, dim);
          Prefetch<L>(fetched + c * n_fetched, n_fetched);
        }
        for (int r = 0; r < kRows; ++r) {
          const typename L::Factor weight = L::LoadFactor(weights + r * kRowElements + j);
          for (int c = 0; c < kVectors; ++c) L::MulAdd(weight, values[c], sums[r][c]);
        }
        at += stride;
        fetched += kVectors * n_fetched;
      }
    }
    if constexpr (L::kScaled) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
        for (int c = 0; c < kVectors; ++c) {
          V::Mul(L::Total(sums[r][c]), V::Set(units[row + r].unit))
              .Store(out + (row + r) * out_stride + dim + c * 16);
        }
      }
    } else {
      SumRest<L, kRows, kVectors, kPartial>(row, dim, begin > end ? begin : end, sums);
    }
  }

  // The keys of SumDims before `end`, which not all of its rows see.
  template <class L, int kRows, int kVectors, bool kPartial>
  NG_INLINE void SumBefore(int row, int dim, int end,
                           V (&sums)[kRows][kVectors][L::kAccumulators]) const {
    float own[kRows][kVectors][L::kAccumulators * 16] = {};  // out of registers, for rows in turn
    for (int r = 0; r < kRows; ++r) {
      const int own_end = end < n_visible[row + r] ? end : n_visible[row + r];
      SumOwn<L, kVectors, kPartial>(row + r, dim, first[row + r], own_end, own[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < kVectors; ++c) {
#pragma GCC unroll 2
        for (int i = 0; i < L::kAccumulators; ++i) sums[r][c][i] = V::Load(own[r][c] + i * 16);
      }
    }
  }

  // The keys of SumDims from `begin` on, which not all of its rows see; then the sums go to `out`.
  template <class L, int kRows, int kVectors, bool kPartial>
  NG_INLINE void SumRest(int row, int dim, int begin,
                         const V (&sums)[kRows][kVectors][L::kAccumulators]) const {
    float own[kRows][kVectors][L::kAccumulators * 16];  // out of registers, for rows in turn
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kVectors; ++c) {
        for (int i = 0; i < L::kAccumulators; ++i) sums[r][c][i].Store(own[r][c] + i * 16);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      SumOwn<L, kVectors, kPartial>(row + r, dim, begin, n_visible[row + r], own[r]);
      for (int c = 0; c < kVectors; ++c) {
        V total[L::kAccumulators];
        for (int i = 0; i < L::kAccumulators; ++i) total[i] = V::Load(own[r][c] + i * 16);
        L::Total(total).Store(out + (row + r) * out_stride + dim + c * 16);
      }
    }
  }

  // Adds keys [begin, end) of one row; where a step has keys beyond these, they are left out.
  template <class L, int kVectors, bool kPartial>
  NG_INLINE void SumOwn(int row, int dim, int begin, int end,
                        float (&sums)[kVectors][L::kAccumulators * 16]) const {
    if (begin >= end) return;
    const auto* weights = reinterpret_cast<const typename L::Element*>(scores + row * kSplitKeys);
    const int64_t stride = int64_t{widths.v} * 4;
    for (int c = 0; c < kVectors; ++c) {
      V total[L::kAccumulators];
      for (int i = 0; i < L::kAccumulators; ++i) total[i] = V::Load(sums[c] + i * 16);
      for (int j = begin / L::kStep * L::kStep; j < end; j += L::kStep) {
        const std::byte* at = v.tiles->at[j / kTile] + j % kTile / L::kStep * stride;
        auto values = LoadValues<L, kPartial>(at + int64_t{dim} * 4 + c * kStepBytes, dim);
        if (j + L::kStep > end) values = L::KeepFirstElement(values);
        if (j < begin) values = L::KeepSecondElement(values);
        L::MulAdd(L::LoadFactor(weights + j), values, total);
      }
      for (int i = 0; i < L::kAccumulators; ++i) total[i].Store(sums[c] + i * 16);
    }
  }

  // The key that its tile begins with.
  static constexpr int FirstOfTile(int key) { return key / kTile * kTile; }
  // To whole steps.
  template <class L>
  static constexpr int RoundUp(int key) {
    return (key + L::kStep - 1) / L::kStep * L::kStep;
  }

  template <class L>
  static NG_INLINE void Clear(typename L::Accumulator* sums, int n) {
#pragma GCC unroll 64
    for (int i = 0; i < n; ++i) sums[i] = L::Zero();
  }

  template <class L>
  static constexpr int64_t DataOffset() {
    return L::kScaled ? kScalesBytes : 0;
  }
  // Of value dimension `dim` within a step; a wide step has whole vectors of dimensions.
  template <class L>
  static constexpr int64_t Offset(int dim) {
    return L::kWide ? (dim + 15) / 16 * kStepBytes : int64_t{dim} * 4;
  }
  static NG_INLINE V Scales(const std::byte* tile) {
    return V::Load(reinterpret_cast<const float*>(tile));
  }

  // The weights of a row's 16 keys from i on, times the scales of V. That of a key that the row
  // does not see may be anything.
  NG_INLINE V ScaledWeights(int row, int i) const {
    const V x = V::Mul(V::Load(scores + row * kSplitKeys + i), Scales(v.tiles->at[i / kTile]));
    const int before = first[row] - i;
    const int end = n_visible[row] - i;
    if (before <= 0 && end >= kTile) return x;
    const uint32_t seen =
        (end < kTile ? (1U << end) - 1U : 0xFFFFU) & (~0U << (before > 0 ? before : 0));
    return V::SelectBits(seen, x, V::Set(0.0F));
  }

  // Bytes of another side's tiles for each step and vector of this one's, which is so wide.
  template <class L>
  static NG_INLINE int64_t FetchedBytes(const Tiles& ahead, int width) {
    return ahead.tile_bytes * L::kStep / width;
  }
  // About n bytes, at most two cache lines. A split of floats does not fit the first level, and
  // more of it can be on its way to the second.
  template <class L>
  static NG_INLINE void Prefetch(const std::byte* p, int64_t n) {
    constexpr auto kHint = L::kScaled ? _MM_HINT_T0 : _MM_HINT_T1;
    _mm_prefetch(reinterpret_cast<const char*>(p), kHint);
    if (n > 96) _mm_prefetch(reinterpret_cast<const char*>(p + 64), kHint);
  }
};

}  // namespace ng
