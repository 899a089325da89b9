// The flash kernel over the vectors of one ISA level (flash_kernel.h says what it computes).
// Included between a level's target macros; what it includes is included before them as well, so
// that only the kernel is compiled for the level. No include guard.
//
// Both products are sums of outer products held in registers: a block of kBlockRows query rows
// against tiles of 16 keys, one head dimension at a time, and the same rows against 16 value
// dimensions, one key at a time. How many tiles or dimensions stand side by side changes no bit,
// because every lane has an accumulator of its own.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "ng/vec16.h"
#include "ng/vec_math-inl.h"
#include "plugins/attention/flash/capture.h"
#include "plugins/attention/flash/flash_kernel.h"

namespace ng {

template <class V, int kBlockRows, int kColumns>
struct Flash {
  static constexpr int kTile = static_cast<int>(kTileTokens);
  static constexpr int kSplitTiles = kSplitKeys / kTile;

  // Stored elements that one load unpacks: a 16-bit codec pairs dimensions (K) or tokens (V).
  static constexpr int Step(Codec codec) { return codec == Codec::kF32 ? 1 : 2; }

  // Vectors side by side: fewer rows leave registers for more columns.
  static constexpr int Columns(int rows) {
    const int columns = kBlockRows * kColumns / rows;
    return columns > 4 ? 4 : columns;
  }

  static constexpr int64_t RoundUp16(int64_t n) { return (n + 15) / 16 * 16; }

  // A worker's scratch, cut up.
  struct Scratch {
    float* q;        // [n_blocks][head_dim, rounded up][kBlockRows], scaled
    float* out;      // [n_rows][out_stride], not yet divided by the sum
    float* max;      // [n_rows]
    float* sum;      // [n_rows]
    float* scores;   // [kBlockRows][kSplitKeys], of one block and split
    float* partial;  // [kBlockRows][out_stride], of one block and split
  };

  // A block of rows facing one split of the keys.
  struct Block {
    const float* q;             // [head_dim, rounded up][kBlockRows]
    float* scores;              // [n_rows][kSplitKeys]; later the weights
    float* out;                 // [n_rows][out_stride]
    int n_rows;                 // 1..kBlockRows
    int head_dim;               //
    int64_t out_stride;         //
    const std::byte* const* k;  // [kSplitTiles]
    const std::byte* const* v;  // [kSplitTiles]
  };

  static int64_t PackedDims(int head_dim) { return (head_dim + 1) / 2 * 2; }

  static int64_t PackedFloats(int head_dim, int64_t n_rows) {
    const int64_t n_blocks = (n_rows + kBlockRows - 1) / kBlockRows;
    return RoundUp16(n_blocks * PackedDims(head_dim) * kBlockRows);
  }

  static int64_t ScratchFloats(int head_dim, int64_t n_rows) {
    return PackedFloats(head_dim, n_rows) + (n_rows + kBlockRows) * RoundUp16(head_dim) +
           2 * RoundUp16(n_rows) + kBlockRows * kSplitKeys;
  }

  static Scratch CutScratch(float* memory, int head_dim, int64_t n_rows) {
    Scratch s;
    s.q = memory;
    s.out = s.q + PackedFloats(head_dim, n_rows);
    s.max = s.out + n_rows * RoundUp16(head_dim);
    s.sum = s.max + RoundUp16(n_rows);
    s.scores = s.sum + RoundUp16(n_rows);
    s.partial = s.scores + kBlockRows * kSplitKeys;
    return s;
  }

  // Sixteen columns of one step. Partial: only the first n exist in memory.
  template <Codec kCodec, bool kPartial>
  static NG_INLINE void Load(const std::byte* p, int n, V* columns) {
    if constexpr (kCodec == Codec::kF32) {
      const auto* row = reinterpret_cast<const float*>(p);
      columns[0] = kPartial ? V::LoadFirst(row, n) : V::Load(row);
    } else {
      const auto* pairs = reinterpret_cast<const uint16_t*>(p);
      uint16_t whole[2 * 16] = {};
      if constexpr (kPartial) {
        std::memcpy(whole, pairs, static_cast<size_t>(n) * 4);
        pairs = whole;
      }
      if constexpr (kCodec == Codec::kBf16) {
        V::LoadBf16Pairs(pairs, &columns[0], &columns[1]);
      } else {
        V::LoadF16Pairs(pairs, &columns[0], &columns[1]);
      }
    }
  }

  // scores[r][key] = q[r] . k[key] for the keys of tiles [tile, tile + kTiles).
  template <Codec kCodec, int kRows, int kTiles>
  static void ScoreTiles(const Block& block, int tile) {
    constexpr int kStep = Step(kCodec);
    V acc[kRows][kTiles];
    for (int r = 0; r < kRows; ++r) {
      for (int t = 0; t < kTiles; ++t) acc[r][t] = V::Set(0.0F);
    }
    const std::byte* k[kTiles];
    for (int t = 0; t < kTiles; ++t) k[t] = block.k[tile + t];
    const float* q = block.q;
    int64_t at = 0;
    for (int d = 0; d < block.head_dim; d += kStep) {
      V keys[kTiles][kStep];
      for (int t = 0; t < kTiles; ++t) Load<kCodec, false>(k[t] + at, 16, keys[t]);
      for (int i = 0; i < kStep; ++i) {
        for (int r = 0; r < kRows; ++r) {
          const V x = V::Set(q[i * kBlockRows + r]);
          for (int t = 0; t < kTiles; ++t) acc[r][t] = V::MulAdd(x, keys[t][i], acc[r][t]);
        }
      }
      q += kStep * kBlockRows;
      at += kTile * 4;  // one f32 or two 16-bit elements for each token
    }
    for (int r = 0; r < kRows; ++r) {
      for (int t = 0; t < kTiles; ++t) {
        acc[r][t].Store(block.scores + r * kSplitKeys + (tile + t) * kTile);
      }
    }
  }

  template <Codec kCodec, int kRows>
  static void Score(const Block& block, int n_tiles) {
    if constexpr (kRows > 1) {
      if (block.n_rows < kRows) return Score<kCodec, kRows - 1>(block, n_tiles);
    }
    constexpr int kTiles = Columns(kRows);
    int tile = 0;
    for (; tile + kTiles <= n_tiles; tile += kTiles) ScoreTiles<kCodec, kRows, kTiles>(block, tile);
    for (; tile < n_tiles; ++tile) ScoreTiles<kCodec, kRows, 1>(block, tile);
  }

  static void Score(Codec codec, const Block& block, int n_tiles) {
    switch (codec) {
      case Codec::kF32:
        return Score<Codec::kF32, kBlockRows>(block, n_tiles);
      case Codec::kBf16:
        return Score<Codec::kBf16, kBlockRows>(block, n_tiles);
      case Codec::kF16:
        return Score<Codec::kF16, kBlockRows>(block, n_tiles);
    }
  }

  // out[r][dim..] += sum of weight[r][key] * v[key][dim..] over keys [begin, end) of the split, in
  // order. REQUIRES: begin is even. `n_dims`: of the last vector, when partial.
  template <Codec kCodec, int kRows, int kVectors, bool kPartial>
  static void SumDims(const Block& block, int begin, int end, int dim) {
    constexpr int kStep = Step(kCodec);
    const int64_t stride = int64_t{block.head_dim} * 4;  // bytes of a step: one f32 or two 16-bit
    const int n_dims = block.head_dim - dim;
    V acc[kRows][kVectors];
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kVectors; ++c) {
        acc[r][c] = V::Load(block.out + r * block.out_stride + dim + c * 16);
      }
    }
    for (int key = begin; key < end;) {
      const int tile = key / kTile;
      const int tile_end = end < (tile + 1) * kTile ? end : (tile + 1) * kTile;
      const std::byte* v = block.v[tile] + (key % kTile) / kStep * stride + int64_t{dim} * 4;
      const float* weights = block.scores + key;
      for (; key + kStep <= tile_end; key += kStep) {
        V values[kVectors][kStep];
        for (int c = 0; c < kVectors; ++c) Load<kCodec, kPartial>(v + c * 64, n_dims, values[c]);
        for (int i = 0; i < kStep; ++i) {
          for (int r = 0; r < kRows; ++r) {
            const V w = V::Set(weights[r * kSplitKeys + i]);
            for (int c = 0; c < kVectors; ++c) acc[r][c] = V::MulAdd(w, values[c][i], acc[r][c]);
          }
        }
        v += stride;
        weights += kStep;
      }
      if (key < tile_end) {  // half a pair: what lies beside it is not there, or not for this query
        for (int c = 0; c < kVectors; ++c) {
          V values[2];
          Load<kCodec, kPartial>(v + c * 64, n_dims, values);
          for (int r = 0; r < kRows; ++r) {
            acc[r][c] = V::MulAdd(V::Set(weights[r * kSplitKeys]), values[0], acc[r][c]);
          }
        }
        ++key;
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kVectors; ++c) {
        acc[r][c].Store(block.out + r * block.out_stride + dim + c * 16);
      }
    }
  }

  template <Codec kCodec, int kRows>
  static void Sum(const Block& block, int begin, int end) {
    if constexpr (kRows > 1) {
      if (block.n_rows < kRows) return Sum<kCodec, kRows - 1>(block, begin, end);
    }
    constexpr int kVectors = Columns(kRows);
    const int n = block.head_dim;
    int dim = 0;
    for (; dim + kVectors * 16 <= n; dim += kVectors * 16) {
      SumDims<kCodec, kRows, kVectors, false>(block, begin, end, dim);
    }
    for (; dim + 16 <= n; dim += 16) SumDims<kCodec, kRows, 1, false>(block, begin, end, dim);
    if (dim < n) SumDims<kCodec, kRows, 1, true>(block, begin, end, dim);
  }

  static void Sum(Codec codec, const Block& block, int begin, int end) {
    switch (codec) {
      case Codec::kF32:
        return Sum<Codec::kF32, kBlockRows>(block, begin, end);
      case Codec::kBf16:
        return Sum<Codec::kBf16, kBlockRows>(block, begin, end);
      case Codec::kF16:
        return Sum<Codec::kF16, kBlockRows>(block, begin, end);
    }
  }

  // Turns the first n scores of a row into e^(score - max), in place; lanes beyond n become 0.
  // The maximum starts at the lowest finite value and ignores NaN, so that a -infinity score is a
  // weight of 0 and a NaN score is a NaN in the sum.
  static void Exponentiate(float* scores, int n, float* max, float* sum) {
    V m = V::Set(-std::numeric_limits<float>::max());
    int i = 0;
    for (; i + 16 <= n; i += 16) m = V::Max(V::Load(scores + i), m);
    if (i < n) {
      const V tail = V::Load(scores + i).KeepFirst(n - i, -std::numeric_limits<float>::infinity());
      tail.Store(scores + i);
      m = V::Max(tail, m);
    }
    *max = m.MaxLane();
    const V shift = V::Set(*max);
    V total = V::Set(0.0F);
    for (i = 0; i < n; i += 16) {
      const V e = Exp(V::Sub(V::Load(scores + i), shift));
      e.Store(scores + i);
      total = V::Add(total, e);
    }
    *sum = total.Sum();
  }

  // Merges a split's (max, sum, out) into what the splits to its left gave.
  struct Softmax {
    float max;
    float sum;
  };
  static void Merge(const Softmax& right, const float* right_out, int64_t n, Softmax* left,
                    float* left_out) {
    const float max = left->max > right.max ? left->max : right.max;
    const V a = Exp(V::Set(left->max - max));
    const V b = Exp(V::Set(right.max - max));
    for (int64_t d = 0; d < n; d += 16) {
      V::MulAdd(V::Load(right_out + d), b, V::Mul(V::Load(left_out + d), a)).Store(left_out + d);
    }
    left->max = max;
    float sum[16];  // every lane the same
    V::MulAdd(V::Set(right.sum), b, V::Mul(V::Set(left->sum), a)).Store(sum);
    left->sum = sum[0];
  }

  // e^(score - max) / sum over a captured row of raw scores, in place.
  static void FinishCapture(const Softmax& softmax, int64_t n, float* row) {
    const V shift = V::Set(softmax.max);
    const V sum = V::Set(softmax.sum);
    for (int64_t j = 0; j < n; j += 16) {
      const int count = n - j < 16 ? static_cast<int>(n - j) : 16;
      const V score = V::LoadFirst(row + j, count);
      V::Div(Exp(V::Sub(score, shift)), sum).StoreFirst(row + j, count);
    }
  }

  // One item: its rows are (query, head) pairs, queries outermost.
  class Item {
   public:
    Item(const AttentionPlan& plan, const AttentionRun& run, const AttentionItem& item,
         float* memory)
        : run_(run),
          item_(item),
          rows_(plan.rows[static_cast<size_t>(item.sequence)]),
          view_(run.views[static_cast<size_t>(item.sequence)]),
          scale_(plan.spec.scale),
          head_dim_(plan.spec.head_dim),
          group_(plan.spec.n_heads / plan.spec.n_kv_heads),
          n_rows_((item.query_end - item.query_begin) * group_),
          out_stride_(RoundUp16(head_dim_)),
          scratch_(CutScratch(memory, head_dim_, n_rows_)) {}

    void Attend() {
      PackQueries();
      const std::byte* k[kSplitTiles];
      const std::byte* v[kSplitTiles];
      for (int64_t split = 0; split < item_.key_end; split += kSplitKeys) {
        const int64_t n_keys =
            item_.key_end - split < kSplitKeys ? item_.key_end - split : kSplitKeys;
        for (int64_t t = 0; t * kTile < n_keys; ++t) {
          k[t] = view_.Tile(view_.k, item_.kv_head, split / kTile + t);
          v[t] = view_.Tile(view_.v, item_.kv_head, split / kTile + t);
        }
        for (int64_t row = 0; row < n_rows_; row += kBlockRows) AttendSplit(row, split, k, v);
      }
      Finish();
    }

   private:
    int64_t Pos(int64_t row) const { return rows_.start_pos + item_.query_begin + row / group_; }
    int64_t TensorRow(int64_t row) const {
      return rows_.row_begin + item_.query_begin + row / group_;
    }
    int Head(int64_t row) const { return item_.kv_head * group_ + static_cast<int>(row % group_); }

    // The keys of the split that a row may see.
    int Visible(int64_t row, int64_t split) const {
      const int64_t n = Pos(row) + 1 - split;
      return static_cast<int>(n < 0 ? 0 : n > kSplitKeys ? kSplitKeys : n);
    }

    void PackQueries() {
      const int64_t dims = PackedDims(head_dim_);
      for (int64_t row = 0; row < n_rows_; ++row) {
        const float* q = run_.q.Row(TensorRow(row), Head(row));
        float* packed = scratch_.q + row / kBlockRows * dims * kBlockRows + row % kBlockRows;
        for (int d = 0; d < head_dim_; ++d) packed[d * kBlockRows] = q[d] * scale_;
        for (int64_t d = head_dim_; d < dims; ++d) packed[d * kBlockRows] = 0.0F;
      }
    }

    // Rows [row, row + kBlockRows) against the keys [split, split + kSplitKeys).
    void AttendSplit(int64_t row, int64_t split, const std::byte* const* k,
                     const std::byte* const* v) {
      const int n_rows = static_cast<int>(n_rows_ - row < kBlockRows ? n_rows_ - row : kBlockRows);
      const int most = Visible(row + n_rows - 1, split);
      if (most == 0) return;
      // The leftmost split starts a row's result, the others are merged into it.
      float* out = split == 0 ? scratch_.out + row * out_stride_ : scratch_.partial;
      for (int64_t i = 0; i < n_rows * out_stride_; i += 16) V::Set(0.0F).Store(out + i);
      const Block block{.q = scratch_.q + row * PackedDims(head_dim_),
                        .scores = scratch_.scores,
                        .out = out,
                        .n_rows = n_rows,
                        .head_dim = head_dim_,
                        .out_stride = out_stride_,
                        .k = k,
                        .v = v};
      Score(view_.k.codec, block, (most + kTile - 1) / kTile);
      Softmax softmax[kBlockRows];
      for (int r = 0; r < n_rows; ++r) {
        const int n = Visible(row + r, split);
        if (n == 0) continue;
        float* scores = block.scores + r * kSplitKeys;
        if (!run_.captures.empty()) CaptureScores(row + r, split, scores, n);
        Exponentiate(scores, n, &softmax[r].max, &softmax[r].sum);
      }
      SumValues(block, row, split);
      for (int r = 0; r < n_rows; ++r) {
        if (Visible(row + r, split) > 0) Keep(softmax[r], row + r, split, block, r);
      }
    }

    // A value that a query may not see is never multiplied, not even by a zero weight: it may be
    // NaN. So all rows walk the keys that the first may see, then each row its own few more.
    void SumValues(const Block& block, int64_t row, int64_t split) const {
      const int least = Visible(row, split);
      const int most = Visible(row + block.n_rows - 1, split);
      const int common = least == most ? least : least / 2 * 2;  // whole pairs for what follows
      Sum(view_.v.codec, block, 0, common);
      if (least == most) return;
      for (int r = 0; r < block.n_rows; ++r) {
        Block one = block;
        one.n_rows = 1;
        one.scores += r * kSplitKeys;
        one.out += r * out_stride_;
        Sum(view_.v.codec, one, common, Visible(row + r, split));
      }
    }

    void Keep(const Softmax& softmax, int64_t row, int64_t split, const Block& block, int r) {
      Softmax left = softmax;
      if (split > 0) {
        left = {scratch_.max[row], scratch_.sum[row]};
        Merge(softmax, block.out + r * out_stride_, out_stride_, &left,
              scratch_.out + row * out_stride_);
      }
      scratch_.max[row] = left.max;
      scratch_.sum[row] = left.sum;
    }

    void Finish() {
      for (int64_t row = 0; row < n_rows_; ++row) {
        const V sum = V::Set(scratch_.sum[row]);
        const float* from = scratch_.out + row * out_stride_;
        float* to = run_.out.Row(TensorRow(row), Head(row));
        for (int d = 0; d < head_dim_; d += 16) {
          const int count = head_dim_ - d < 16 ? head_dim_ - d : 16;
          V::Div(V::Load(from + d), sum).StoreFirst(to + d, count);
        }
        for (const ProbabilityRow& capture : Captures(row)) {
          FinishCapture({scratch_.max[row], scratch_.sum[row]}, capture.pos + 1, capture.out);
        }
      }
    }

    void CaptureScores(int64_t row, int64_t split, const float* scores, int n) const {
      for (const ProbabilityRow& capture : Captures(row)) {
        std::memcpy(capture.out + split, scores, static_cast<size_t>(n) * sizeof(float));
      }
    }

    std::span<const ProbabilityRow> Captures(int64_t row) const {
      return FindCaptures(run_.captures, item_.sequence, Pos(row), Head(row));
    }

    const AttentionRun& run_;
    const AttentionItem& item_;
    const SequenceRows& rows_;
    const KvView& view_;
    const float scale_;
    const int head_dim_;
    const int group_;
    const int64_t n_rows_;
    const int64_t out_stride_;
    const Scratch scratch_;
  };

  static void Attend(const AttentionPlan& plan, const AttentionRun& run, const AttentionItem& item,
                     float* scratch) {
    Item(plan, run, item, scratch).Attend();
  }

  static constexpr FlashKernel kKernel = {.scratch_floats = ScratchFloats, .attend = Attend};
};

}  // namespace ng
