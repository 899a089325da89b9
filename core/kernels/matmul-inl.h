// Matmul over a 16-lane vector type V. Included by kernels-inl.h, once per level.
//
// A tile of rows x column blocks keeps its sums in registers while k runs upward; each step loads
// 16 weights per block, widens them to f32 and multiplies them by one broadcast input per row. A
// sum that has to wait for its next run of k rests in `out`, as exact there as in a register. So
// every output is the same chain of multiply-adds whichever tile computed it, and rows, column
// position and threads cannot change a bit of it.

#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

namespace ng {

// The packed weights of one type. A pair is two neighbouring k of one column block: 32 elements.
template <class V>
struct F32Weights {
  using Element = float;
  static constexpr bool kPairsPadded = false;  // an odd k ends in half a pair
  static NG_INLINE V Even(const float* pair) { return V::Load(pair); }
  static NG_INLINE V Odd(const float* pair) { return V::Load(pair + 16); }
};

template <class V>
struct F16Weights {
  using Element = uint16_t;
  static constexpr bool kPairsPadded = false;
  static NG_INLINE V Even(const uint16_t* pair) { return V::LoadF16(pair); }
  static NG_INLINE V Odd(const uint16_t* pair) { return V::LoadF16(pair + 16); }
};

template <class V>
struct Bf16Weights {
  using Element = uint16_t;
  static constexpr bool kPairsPadded = true;
  static NG_INLINE V Even(const uint16_t* pair) {
    V even, odd;
    V::LoadBf16Pairs(pair, &even, &odd);
    return even;
  }
  static NG_INLINE V Odd(const uint16_t* pair) {
    V even, odd;
    V::LoadBf16Pairs(pair, &even, &odd);
    return odd;
  }
};

// One tile over one run of k.
template <class Element>
struct MatmulTileArgs {
  const float* x = nullptr;  // [rows, k_count], rows x_stride apart
  int64_t x_stride = 0;
  const Element* weights = nullptr;  // of the first block, at the run's first k
  int64_t block_stride = 0;          // elements from a block to the next
  int64_t k_count = 0;               // even, except in the last run
  float* out = nullptr;              // [rows, n_columns], rows out_stride apart
  int64_t out_stride = 0;
  int n_columns = 0;            // of the tile's blocks; the last one may be partly filled
  bool first = true;            // the sums start at 0, else from out
  const float* bias = nullptr;  // [n_columns], added to the finished sums, or null
  // Weights to bring near meanwhile: per pair of k one cache line of each block, this far apart.
  const Element* prefetch = nullptr;
  int64_t prefetch_step = 0;
};

// acc[r][c] += x[r] * weights of block c, for one k.
template <class V, class W, int kRows, int kBlocks, bool kOdd>
NG_INLINE void MatmulStep(const float* x, int64_t x_stride, const typename W::Element* pair,
                          int64_t block_stride, V (&acc)[kRows][kBlocks]) {
  V w[kBlocks];
#pragma GCC unroll 16
  for (int c = 0; c < kBlocks; ++c) {
    w[c] = kOdd ? W::Odd(pair + c * block_stride) : W::Even(pair + c * block_stride);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const V xr = V::Set(x[r * x_stride]);
#pragma GCC unroll 16
    for (int c = 0; c < kBlocks; ++c) acc[r][c] = V::MulAdd(xr, w[c], acc[r][c]);
  }
}

template <class V, class Element, int kRows, int kBlocks>
NG_INLINE void LoadSums(const MatmulTileArgs<Element>& t, V (&acc)[kRows][kBlocks]) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kBlocks; ++c) {
      const float* out = t.out + r * t.out_stride + c * 16;
      const int n = t.n_columns - c * 16;
      acc[r][c] = t.first ? V::Set(0.0F) : n < 16 ? V::LoadFirst(out, n) : V::Load(out);
    }
  }
}

template <class V, class Element, int kRows, int kBlocks>
NG_INLINE void StoreSums(const MatmulTileArgs<Element>& t, V (&acc)[kRows][kBlocks]) {
#pragma GCC unroll 16
  for (int c = 0; c < kBlocks; ++c) {
    const int n = std::min(16, t.n_columns - c * 16);
    if (t.bias != nullptr) {
      const V bias = V::LoadFirst(t.bias + c * 16, n);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) acc[r][c] = V::Add(acc[r][c], bias);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      float* out = t.out + r * t.out_stride + c * 16;
      if (n < 16) {
        acc[r][c].StoreFirst(out, n);
      } else {
        acc[r][c].Store(out);
      }
    }
  }
}

template <class V, class W, int kRows, int kBlocks, bool kPrefetch>
void MatmulTile(const MatmulTileArgs<typename W::Element>& t) {
  V acc[kRows][kBlocks];
  LoadSums(t, acc);
  const float* x = t.x;
  const auto* pair = t.weights;
  const auto* prefetch = t.prefetch;
  for (int64_t k = 1; k < t.k_count; k += 2, x += 2, pair += 32) {
    if constexpr (kPrefetch) {
#pragma GCC unroll 16
      for (int c = 0; c < kBlocks; ++c) __builtin_prefetch(prefetch + c * t.block_stride);
      prefetch += t.prefetch_step;
    }
    MatmulStep<V, W, kRows, kBlocks, false>(x, t.x_stride, pair, t.block_stride, acc);
    MatmulStep<V, W, kRows, kBlocks, true>(x + 1, t.x_stride, pair, t.block_stride, acc);
  }
  if (t.k_count % 2 != 0) {
    MatmulStep<V, W, kRows, kBlocks, false>(x, t.x_stride, pair, t.block_stride, acc);
  }
  StoreSums(t, acc);
}

// The tile of `rows` rows, 1 <= rows <= kMaxRows.
template <class V, class W, int kMaxRows, int kBlocks>
void MatmulRows(int64_t rows, const MatmulTileArgs<typename W::Element>& t) {
  if constexpr (kMaxRows > 1) {
    if (rows < kMaxRows) return MatmulRows<V, W, kMaxRows - 1, kBlocks>(rows, t);
  }
  MatmulTile<V, W, kMaxRows, kBlocks, true>(t);
}

// A panel: all rows of the kBlocks column blocks that begin at `block`. With more rows than a tile
// has, k is cut into runs whose weights stay in the first-level cache while the rows pass by.
//
// Few rows are bound by the stream of weights. One tile prefetches its own stream, in its last run
// that of the next panel; several tiles share the fetching of the next run between them. Where
// that would not pay (many rows; one tile of f32, whose stream the hardware follows by itself) the
// prefetch stands still on a line that is there already.
template <class V, class W, int kRows, int kBlocks>
void MatmulPanel(const MatmulArgs& a, int64_t block) {
  using Element = typename W::Element;
  constexpr int64_t kRun = 32768 / (kBlocks * 16 * 4);                          // 32 KiB as f32
  constexpr int64_t kAhead = 8192 / (kBlocks * 16 * int64_t{sizeof(Element)});  // 8 KiB in all
  const int64_t tiles = (a.n_rows + kRows - 1) / kRows;
  const bool prefetch = tiles == 1 ? sizeof(Element) < 4 : tiles <= 12;
  const int64_t run = tiles == 1 ? std::max(kAhead, (a.k - kAhead + 1) / 2 * 2) : kRun;
  const int64_t fetched = tiles == 1 ? kAhead : kRun;
  const int64_t column = block * kBlockColumns;

  MatmulTileArgs<Element> t;
  t.x_stride = a.x_stride;
  t.block_stride = (W::kPairsPadded ? a.k + a.k % 2 : a.k) * 16;
  t.out_stride = a.out_stride;
  t.n_columns = static_cast<int>(std::min(kBlocks * kBlockColumns, a.n_columns - column));
  t.prefetch_step = prefetch ? std::max(int64_t{1}, 32 / tiles) : 0;
  const auto* weights = static_cast<const Element*>(a.weights) + block * t.block_stride;
  for (int64_t k = 0; k < a.k; k += run) {
    const bool last = k + run >= a.k;
    t.weights = weights + k * 16;
    t.k_count = std::min(run, a.k - k);
    t.first = k == 0;
    t.bias = a.bias != nullptr && last ? a.bias + column : nullptr;
    t.prefetch = !prefetch ? t.weights
                 : last    ? weights + kBlocks * t.block_stride
                           : t.weights + fetched * 16;
    for (int64_t row = 0; row < a.n_rows; row += kRows) {
      t.x = a.x + row * a.x_stride + k;
      t.out = a.out + row * a.out_stride + column;
      if (prefetch || a.n_rows - row < kRows) {
        MatmulRows<V, W, kRows, kBlocks>(std::min(int64_t{kRows}, a.n_rows - row), t);
      } else {
        MatmulTile<V, W, kRows, kBlocks, false>(t);
      }
      t.prefetch += t.k_count / 2 * t.prefetch_step;
    }
  }
}

// Panels of kBlocks blocks from `block` on, then of half as many for what is left.
template <class V, class W, int kRows, int kBlocks>
void MatmulPanels(const MatmulArgs& a, int64_t block) {
  for (; block + kBlocks <= a.block_end; block += kBlocks) {
    MatmulPanel<V, W, kRows, kBlocks>(a, block);
  }
  if constexpr (kBlocks > 1) MatmulPanels<V, W, kRows, kBlocks / 2>(a, block);
}

// kRows x kBlocks: the tile for many rows; kSingleBlocks: the blocks that a single row takes at
// once.
template <class V, class W, int kRows, int kBlocks, int kSingleBlocks>
void Matmul(const MatmulArgs& a) {
  if (a.n_rows == 1) {
    MatmulPanels<V, W, 1, kSingleBlocks>(a, a.block_begin);
  } else {
    MatmulPanels<V, W, kRows, kBlocks>(a, a.block_begin);
  }
}

}  // namespace ng
