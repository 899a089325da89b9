// Matmul over a weights class W (matmul_weights-inl.h, bf16_dot-inl.h, grid_weights-inl.h).
// Included by kernels-inl.h, once per level.
//
// A tile of rows x column blocks keeps its sums in registers while k rises. A sum that has to wait
// for its next run of k is stored in `out`, where it is as exact as in a register. So every output
// is the same chain of additions, whichever tile computes it. The number of rows, the position of
// the column and the threads cannot change a bit of it.

#include "core/kernels/kernel_table.h"
#include "ng/vec16.h"

namespace ng {

// One tile over one run of k.
struct TileArgs {
  const std::byte* x = nullptr;        // [rows], at the run's first input
  int64_t x_stride = 0;                // bytes
  const std::byte* weights = nullptr;  // those of the first block, at the run's first input
  int64_t block_stride = 0;            // bytes from a block to the next
  int64_t k_count = 0;                 // whole steps, except in the last run
  float* out = nullptr;                // [rows, n_columns], rows out_stride apart
  int64_t out_stride = 0;
  int n_columns = 0;            // in the tile's blocks; the last one may be partly filled
  bool first = true;            // true: the sums begin at 0; false: they begin with `out`
  const float* bias = nullptr;  // [n_columns], added to the finished sums, or null
  // Weights to prefetch meanwhile: in each step some cache lines of each block. The next step's
  // lines are prefetch_step further on.
  const std::byte* prefetch = nullptr;
  int64_t prefetch_step = 0;  // bytes
};

template <class V, int kRows, int kBlocks>
NG_INLINE void LoadSums(const TileArgs& t, V (&acc)[kRows][kBlocks]) {
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

template <class V, int kRows, int kBlocks>
NG_INLINE void StoreSums(const TileArgs& t, V (&acc)[kRows][kBlocks]) {
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

// kLines: cache lines of each block to prefetch per step.
template <class W, int kRows, int kBlocks, int kLines>
void ComputeTile(const TileArgs& t) {
  typename W::Lanes acc[kRows][kBlocks];
  LoadSums(t, acc);
  const std::byte* x = t.x;
  const std::byte* w = t.weights;
  const std::byte* prefetch = t.prefetch;
  const int64_t steps = (W::kPaddedInput ? t.k_count + W::kStep - 1 : t.k_count) / W::kStep;
  for (int64_t i = 0; i < steps; ++i, x += W::kInputBytes, w += W::kWeightBytes) {
    constexpr int kPartLines = (kLines + W::kParts - 1) / W::kParts;
    for (int part = 0; part < W::kParts; ++part) {
      if constexpr (kLines > 0) {
#pragma GCC unroll 16
        for (int c = 0; c < kBlocks; ++c) {
#pragma GCC unroll 16
          for (int l = 0; l < kPartLines; ++l) {
            __builtin_prefetch(prefetch + c * t.block_stride + (part * kPartLines + l) * 64);
          }
        }
      }
      W::Step(part, x, t.x_stride, w, t.block_stride, acc);
    }
    if constexpr (kLines > 0) prefetch += t.prefetch_step;
  }
  if constexpr (!W::kPaddedInput) {
    if (t.k_count % W::kStep != 0) W::Tail(x, t.x_stride, w, t.block_stride, acc);
  }
  StoreSums(t, acc);
}

// The tile of `rows` rows, 1 <= rows <= kMaxRows.
template <class W, int kMaxRows, int kBlocks, int kLines>
void MatmulRows(int64_t rows, const TileArgs& t) {
  if constexpr (kMaxRows > 1) {
    if (rows < kMaxRows) return MatmulRows<W, kMaxRows - 1, kBlocks, kLines>(rows, t);
  }
  ComputeTile<W, kMaxRows, kBlocks, kLines>(t);
}

// The tile of kBlocks column blocks at `block`, its run and its rows.
template <class W, int kBlocks>
TileArgs TileOf(const MatmulArgs& a, int64_t block) {
  TileArgs t;
  t.x_stride = a.x_stride;
  t.block_stride = PackedBlockBytes(W::kType, a.k);
  t.out_stride = a.out_stride;
  t.n_columns =
      static_cast<int>(std::min(kBlocks * kBlockColumns, a.n_columns - block * kBlockColumns));
  return t;
}

template <class W>
void BeginRun(const MatmulArgs& a, int64_t block, int64_t k, int64_t k_count, TileArgs* t) {
  t->weights = a.weights + block * t->block_stride + k / W::kStep * W::kWeightBytes;
  t->k_count = k_count;
  t->first = k == 0;
  t->bias = a.bias != nullptr && k + k_count >= a.k ? a.bias + block * kBlockColumns : nullptr;
}

// Returns how many rows the tile has.
template <class W, int kRows>
int64_t BeginRows(const MatmulArgs& a, int64_t block, int64_t k, int64_t row, TileArgs* t) {
  t->x = a.x + row * a.x_stride + k / W::kStep * W::kInputBytes;
  t->out = a.out + row * a.out_stride + (block - a.block_begin) * kBlockColumns;
  return std::min(int64_t{kRows}, a.n_rows - row);
}

// k is cut into runs of so many inputs, whose weights stay in the first-level cache while the rows
// pass by.
template <class W, int kBlocks>
constexpr int64_t RunOf() {
  constexpr bool kF32 = W::kWeightBytes / W::kStep == 64;
  return (kF32 ? 32768 : 16384) / (kBlocks * W::kWeightBytes) * W::kStep;
}

constexpr int64_t kFewTiles = 12;

// A panel: all rows of the kBlocks column blocks that begin at `block`, in at most kFewTiles tiles.
//
// The stream of weights is the limit, so weights are prefetched:
// - One tile prefetches its own stream. With one block it goes straight on, because the next panel
//   follows in memory. With several blocks its last run prefetches from the next panel.
// - Several tiles share the prefetching of the next run. A step of several parts has the time to
//   prefetch more than its share, and needs no code of its own then.
//
// kOneTile: whether there are not more rows than a tile has.
template <class W, int kRows, int kBlocks, bool kOneTile>
void MatmulPanel(const MatmulArgs& a, int64_t block) {
  constexpr int64_t kRun = RunOf<W, kBlocks>();
  constexpr int64_t kAhead = 8192 / (kBlocks * W::kWeightBytes) * W::kStep;
  constexpr int kLines = (W::kWeightBytes + 63) / 64;
  constexpr int kShared = W::kParts > 1 ? kLines : (kLines + 1) / 2;
  const int64_t tiles = kOneTile ? 1 : (a.n_rows + kRows - 1) / kRows;
  constexpr bool kStraightOn = kOneTile && kBlocks == 1;
  int64_t run = kRun;
  if constexpr (kStraightOn) {
    run = a.k;
  } else if constexpr (kOneTile) {
    run = std::max(kAhead, (a.k - kAhead + W::kStep - 1) / W::kStep * W::kStep);
  }
  constexpr int64_t kFetched = kOneTile ? kAhead : kRun;

  TileArgs t = TileOf<W, kBlocks>(a, block);
  t.prefetch_step = W::kWeightBytes / tiles;
  const std::byte* weights = a.weights + block * t.block_stride;
  for (int64_t k = 0; k < a.k; k += run) {
    BeginRun<W>(a, block, k, std::min(run, a.k - k), &t);
    const bool last = k + run >= a.k;
    t.prefetch = last && !kStraightOn ? weights + kBlocks * t.block_stride
                                      : t.weights + kFetched / W::kStep * W::kWeightBytes;
    for (int64_t row = 0; row < a.n_rows; row += kRows) {
      const int64_t rows = BeginRows<W, kRows>(a, block, k, row, &t);
      MatmulRows<W, kRows, kBlocks, kOneTile ? kLines : kShared>(rows, t);
      t.prefetch += t.k_count / W::kStep * t.prefetch_step;
    }
  }
}

// The same for weights on a grid and many rows. Runs of 256 inputs are unpacked to bytes that stay
// in the first-level cache.
template <class D, WeightType kType, int kRows, int kBlocks>
void UnpackedPanel(const MatmulArgs& a, int64_t block) {
  using Chunk = typename Unpacker<D, kType>::Chunk;
  using W = UnpackedWeights<D, Chunk>;
  constexpr int64_t kRun = 256;
  constexpr int64_t kBlockBytes = kRun / W::kStep * W::kWeightBytes;
  alignas(64) std::byte unpacked[kBlocks * kBlockBytes];
  const int64_t packed_bytes = PackedBlockBytes(kType, a.k);
  const int64_t column = block * kBlockColumns;

  TileArgs t;
  t.x_stride = a.x_stride;
  t.weights = unpacked;
  t.block_stride = kBlockBytes;
  t.out_stride = a.out_stride;
  t.n_columns = static_cast<int>(std::min(kBlocks * kBlockColumns, a.n_columns - column));
  for (int64_t k = 0; k < a.k; k += kRun) {
    t.k_count = std::min(kRun, a.k - k);
    const std::byte* packed = a.weights + block * packed_bytes + PackedBlockBytes(kType, k);
    for (int c = 0; c < kBlocks; ++c) {
      Unpacker<D, kType>::Run(packed + c * packed_bytes, (t.k_count + W::kStep - 1) / W::kStep,
                              unpacked + c * kBlockBytes);
    }
    t.first = k == 0;
    t.bias = a.bias != nullptr && k + kRun >= a.k ? a.bias + column : nullptr;
    for (int64_t row = 0; row < a.n_rows; row += kRows) {
      t.x = a.x + row * a.x_stride + k / W::kStep * W::kInputBytes;
      t.out = a.out + row * a.out_stride + (block - a.block_begin) * kBlockColumns;
      MatmulRows<W, kRows, kBlocks, 0>(std::min(int64_t{kRows}, a.n_rows - row), t);
    }
  }
}

template <class W, int kRows, bool kOneTile>
struct Panels {
  template <int kBlocks>
  void Run(const MatmulArgs& a, int64_t block) const {
    MatmulPanel<W, kRows, kBlocks, kOneTile>(a, block);
  }
};

template <class D, WeightType kType, int kRows>
struct UnpackedPanels {
  template <int kBlocks>
  void Run(const MatmulArgs& a, int64_t block) const {
    UnpackedPanel<D, kType, kRows, kBlocks>(a, block);
  }
};

// One run of k of a panel's rows.
template <class W, int kRows>
struct RunsOfPanels {
  int64_t k;
  int64_t k_count;
  template <int kBlocks>
  void Run(const MatmulArgs& a, int64_t block) const {
    TileArgs t = TileOf<W, kBlocks>(a, block);
    BeginRun<W>(a, block, k, k_count, &t);
    for (int64_t row = 0; row < a.n_rows; row += kRows) {
      const int64_t rows = BeginRows<W, kRows>(a, block, k, row, &t);
      MatmulRows<W, kRows, kBlocks, 0>(rows, t);
    }
  }
};

// Computes panels of kBlocks blocks from `block` on, then panels of half as many for the rest.
template <int kBlocks, class Panels>
void MatmulPanels(const Panels& panels, const MatmulArgs& a, int64_t block) {
  for (; block + kBlocks <= a.block_end; block += kBlocks) panels.template Run<kBlocks>(a, block);
  if constexpr (kBlocks > 1) MatmulPanels<kBlocks / 2>(panels, a, block);
}

// Many rows: of a run of k, a group of rows stays in the second-level cache while all panels pass
// by.
template <class W, int kRows, int kBlocks>
void MatmulInGroups(const MatmulArgs& all) {
  constexpr int64_t kRun = RunOf<W, kBlocks>();
  constexpr int64_t kGroupBytes = 65536;  // of rows; a sixth of the smallest such cache
  constexpr int64_t kTileBytes = kRows * (kRun / W::kStep * W::kInputBytes);
  constexpr int64_t kGroup = (kGroupBytes / kTileBytes + 1) * kRows;
  for (int64_t k = 0; k < all.k; k += kRun) {
    const RunsOfPanels<W, kRows> panels{k, std::min(kRun, all.k - k)};
    for (int64_t row = 0; row < all.n_rows; row += kGroup) {
      MatmulArgs group = all;
      group.x += row * all.x_stride;
      group.out += row * all.out_stride;
      group.n_rows = std::min(kGroup, all.n_rows - row);
      MatmulPanels<kBlocks>(panels, group, group.block_begin);
    }
  }
}

// kRows x kBlocks: the tile for many rows. Few rows take one block at a time: memory is read
// fastest in its own order. But a block has only one chain of additions for each row, and where the
// sums are f32, one chain is slower than a cache. So there a matrix that is small enough to be in a
// cache takes several blocks.
template <class W, int kRows, int kBlocks>
void Matmul(const MatmulArgs& a) {
  if constexpr (kBlocks > 1) {
    constexpr int64_t kSmall = 512 * 1024;
    constexpr int64_t kFewRows = 8;
    const int64_t bytes = a.n_columns / kBlockColumns * PackedBlockBytes(W::kType, a.k);
    if (a.n_rows <= kFewRows && (IsBytes(W::kInput) || bytes > kSmall)) {
      return MatmulPanels<1>(Panels<W, kFewRows, true>(), a, a.block_begin);
    }
    // The same number of sums in half as many blocks: a small batch then reads the weights in fewer
    // streams.
    if (a.n_rows > kRows && a.n_rows <= 2 * kRows) {
      return MatmulPanels<kBlocks / 2>(Panels<W, 2 * kRows, true>(), a, a.block_begin);
    }
  }
  if (a.n_rows > kFewTiles * kRows) return MatmulInGroups<W, kRows, kBlocks>(a);
  if (a.n_rows > kRows) return MatmulPanels<kBlocks>(Panels<W, kRows, false>(), a, a.block_begin);
  MatmulPanels<kBlocks>(Panels<W, kRows, true>(), a, a.block_begin);
}

// The same for weights on a grid, by the level's byte dot products. Few rows are one tile of one
// block, which reads the weights in one stream. Of up to kPackedTiles tiles each takes the weights
// as they lie, because only the first one waits for memory. More rows share unpacked weights.
template <class Level, WeightType kType, int kRows>
void GridMatmul(const MatmulArgs& a) {
  using D = typename Level::Dot;
  constexpr int kBlocks = Level::kByteBlocks;
  using W = GridWeights<D, kType>;
  constexpr int64_t kFewRows = kRows * kBlocks;  // as many sums as in the other tiles
  if (a.n_rows == 1) return MatmulPanels<1>(Panels<W, 1, true>(), a, a.block_begin);
  if constexpr (Level::kPackedTiles > 0) {
    if (a.n_rows <= kFewRows) {
      return MatmulPanels<1>(Panels<W, kFewRows, true>(), a, a.block_begin);
    }
    if (a.n_rows <= Level::kPackedTiles * kRows) {
      return MatmulPanels<kBlocks>(Panels<W, kRows, false>(), a, a.block_begin);
    }
  }
  MatmulPanels<kBlocks>(UnpackedPanels<D, kType, kRows>(), a, a.block_begin);
}

}  // namespace ng
