// The two products of the flash kernel (flash_kernel.h): a block of query rows against one split of
// the keys. Included between a level's target macros. No include guard.
//
// Both are sums of outer products held in registers: a few rows against a few tiles of 16 keys, one
// step of head dimensions at a time, and rows against vectors of 16 value dimensions, one step of
// keys at a time. How many stand side by side changes no bit, because every lane of a row has
// accumulators of its own.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ng/vec16.h"
#include "plugins/attention/flash/flash_kernel.h"

namespace ng {

template <class Level>
struct FlashBlock {
  using V = typename Level::V;
  static constexpr int kBlockRows = Level::kBlockRows;
  static constexpr int kTile = static_cast<int>(kTileTokens);
  static constexpr int kSplitTiles = kSplitKeys / kTile;
  static constexpr int kStepBytes = kTile * 4;  // of 16 columns: one f32 or two 16-bit elements

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

  // A side to multiply, and one that is fetched meanwhile, byte for byte, in the order in which it
  // lies in memory: the processor foresees neither. Nothing to fetch: nullptr.
  struct Operand {
    const Tiles* tiles;
    const Tiles* ahead;
  };

  const float* q;             // L::Elements [steps][kBlockRows][kStep], by the codec of K
  float* scores;              // [n_rows][kSplitKeys]; later weights: L::Elements by the codec of V
  float* out;                 // [n_rows][out_stride]
  int64_t out_stride;         //
  int head_dim;               //
  int n_rows;                 // 1..kBlockRows
  int n_visible[kBlockRows];  // keys of the split that each row may see, never fewer than before
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
    int tile = 0;
    if (k.ahead == nullptr) {
      for (; tile + kTiles <= n_tiles; tile += kTiles) {
        ScoreTiles<L, kRows, kTiles>(row, tile, nullptr);
      }
    }
    for (; tile < n_tiles; ++tile) {
      ScoreTiles<L, kRows, 1>(row, tile, (k.ahead == nullptr ? k.tiles : k.ahead)->at[tile]);
    }
  }

  template <class L, int kRows, int kTiles>
  NG_INLINE void ScoreTiles(int row, int tile, const std::byte* fetched) const {
    V sums[kRows][kTiles][L::kAccumulators];
    Clear(&sums[0][0][0], kRows * kTiles * L::kAccumulators);
    const std::byte* at[kTiles];
    for (int t = 0; t < kTiles; ++t) at[t] = k.tiles->at[tile + t];
    const auto* x = reinterpret_cast<const typename L::Element*>(q) + row * L::kStep;
    const int64_t end = int64_t{(head_dim + L::kStep - 1) / L::kStep} * kStepBytes;
    for (int64_t step = 0; step < end; step += kStepBytes) {
      typename L::Columns keys[kTiles];
      for (int t = 0; t < kTiles; ++t) keys[t] = L::Load(at[t] + step);
      if constexpr (kTiles == 1) Prefetch(fetched + step);
      for (int r = 0; r < kRows; ++r) {
        const typename L::Factor factor = L::LoadFactor(x + r * L::kStep);
        for (int t = 0; t < kTiles; ++t) L::MulAdd(factor, keys[t], sums[r][t]);
      }
      x += kBlockRows * L::kStep;
    }
    for (int r = 0; r < kRows; ++r) {
      for (int t = 0; t < kTiles; ++t) {
        L::Total(sums[r][t]).Store(scores + (row + r) * kSplitKeys + (tile + t) * kTile);
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
    for (; dim + kVectors * 16 <= head_dim; dim += kVectors * 16) {
      SumDims<L, kRows, kVectors, false>(row, dim);
    }
    for (; dim + 16 <= head_dim; dim += 16) SumDims<L, kRows, 1, false>(row, dim);
    if (dim < head_dim) SumDims<L, kRows, 1, true>(row, dim);
  }

  template <class L, bool kPartial>
  NG_INLINE typename L::Columns LoadValues(const std::byte* p, int dim) const {
    if constexpr (kPartial) return L::LoadFirst(p, head_dim - dim);
    return L::Load(p);
  }

  // Dimensions [dim, dim + 16 * kVectors). A value that a query may not see is never multiplied,
  // not even by a zero weight: it may be NaN. So all rows walk the whole steps that the first may
  // see, then each row its own few more.
  template <class L, int kRows, int kVectors, bool kPartial>
  NG_INLINE void SumDims(int row, int dim) const {
    V sums[kRows][kVectors][L::kAccumulators];
    Clear(&sums[0][0][0], kRows * kVectors * L::kAccumulators);
    const auto* weights = reinterpret_cast<const typename L::Element*>(scores + row * kSplitKeys);
    constexpr size_t kRowBytes = kSplitKeys * sizeof(float);
    constexpr size_t kRowElements = kRowBytes / sizeof(typename L::Element);
    const int64_t stride = int64_t{head_dim} * 4;  // of a step: one f32 or two 16-bit elements
    const Tiles& ahead = v.ahead == nullptr ? *v.tiles : *v.ahead;
    const int common = n_visible[row] / L::kStep * L::kStep;
    for (int key = 0; key < common; key += kTile) {
      const int tile_end = common < key + kTile ? common : key + kTile;
      const std::byte* at = v.tiles->at[key / kTile] + int64_t{dim} * 4;
      const int64_t n_before = int64_t{dim} * (kSplitKeys / kTile) + int64_t{key} * kVectors;
      const std::byte* fetched = ahead.Find(n_before / L::kStep * kStepBytes);
      for (int j = key; j < tile_end; j += L::kStep) {
        typename L::Columns values[kVectors];
        for (int c = 0; c < kVectors; ++c) {
          values[c] = LoadValues<L, kPartial>(at + c * kStepBytes, dim);
          Prefetch(fetched + c * kStepBytes);
        }
        for (int r = 0; r < kRows; ++r) {
          const typename L::Factor weight = L::LoadFactor(weights + r * kRowElements + j);
          for (int c = 0; c < kVectors; ++c) L::MulAdd(weight, values[c], sums[r][c]);
        }
        at += stride;
        fetched += kVectors * kStepBytes;
      }
    }
    float rest[kRows][kVectors][L::kAccumulators * 16];  // out of registers, for rows in turn
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kVectors; ++c) {
        for (int i = 0; i < L::kAccumulators; ++i) sums[r][c][i].Store(rest[r][c] + i * 16);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kVectors; ++c) {
        V total[L::kAccumulators];
        for (int i = 0; i < L::kAccumulators; ++i) total[i] = V::Load(rest[r][c] + i * 16);
        for (int j = common; j < n_visible[row + r]; j += L::kStep) {
          const std::byte* at = v.tiles->at[j / kTile] + j % kTile / L::kStep * stride;
          auto values = LoadValues<L, kPartial>(at + int64_t{dim} * 4 + c * kStepBytes, dim);
          if (j + L::kStep > n_visible[row + r]) values = L::KeepFirstElement(values);
          L::MulAdd(L::LoadFactor(weights + r * kRowElements + j), values, total);
        }
        L::Total(total).Store(out + (row + r) * out_stride + dim + c * 16);
      }
    }
  }

  static NG_INLINE void Clear(V* sums, int n) {
    for (int i = 0; i < n; ++i) sums[i] = V::Set(0.0F);
  }

  static NG_INLINE void Prefetch(const std::byte* p) {
    _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
  }
};

}  // namespace ng
