// Where the flash backend keeps what is not yet a result: each worker's own scratch, and the
// partial results of rows whose keys are shared out over several items.
#ifndef NG_PLUGINS_ATTENTION_FLASH_FLASH_SCRATCH_H_
#define NG_PLUGINS_ATTENTION_FLASH_FLASH_SCRATCH_H_

#include <bit>
#include <cstdint>

#include "ng/attention_backend.h"
#include "plugins/attention/flash/flash_kernel.h"

namespace ng {

constexpr int64_t RoundUp16(int64_t n) { return (n + 15) / 16 * 16; }

// The widths of a head.
struct HeadWidths {
  int k;  // of q too
  int v;  // of what comes out too
  bool v_in_k;
};
inline HeadWidths WidthsOf(const AttentionSpec& spec) {
  return {spec.head_dim, spec.v_head_dim, spec.v_in_k};
}

// What rows have got from some of their keys; `out` is not yet divided by `sum`.
struct PartialRows {
  float* out;          // [n_rows][out_stride]
  float* max;          // [n_rows]
  float* sum;          // [n_rows]
  int64_t out_stride;  // v_head_dim rounded up to 16

  static int64_t Floats(int v_head_dim, int64_t n_rows) {
    return n_rows * RoundUp16(v_head_dim) + 2 * RoundUp16(n_rows);
  }
  static PartialRows At(float* memory, int v_head_dim, int64_t n_rows) {
    const int64_t out_stride = RoundUp16(v_head_dim);
    float* max = memory + n_rows * out_stride;
    return {memory, max, max + RoundUp16(n_rows), out_stride};
  }
  PartialRows From(int64_t row) const {
    return {out + row * out_stride, max + row, sum + row, out_stride};
  }
};

// The weights of the keys, of rows whose probabilities are added up over the heads that share a kv
// head (AttentionRun::attended). Splits are counted from the first that the item's rows see.
struct KeptWeights {
  float* weights;  // [n_rows][n_splits][kSplitKeys], e^(score - the split's largest)
  float* factors;  // [n_rows][n_splits]: the split's largest score; then what makes of its weights
                   // probabilities
  int64_t n_splits;  // room for so many
  int64_t leftmost;  // the first

  // In powers of two, so that a sequence that grows needs more but seldom.
  static int64_t Room(int64_t n_splits) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n_splits)));
  }
  static int64_t Floats(int64_t n_rows, int64_t n_splits) {
    return n_rows * Room(n_splits) * kSplitKeys + RoundUp16(n_rows * Room(n_splits));
  }
  static KeptWeights At(float* memory, int64_t n_rows, int64_t leftmost, int64_t end) {
    const int64_t room = Room(end - leftmost);
    return {memory, memory + n_rows * room * kSplitKeys, room, leftmost};
  }
  float* Weights(int64_t row, int64_t split) const {
    return weights + (row * n_splits + split) * kSplitKeys;
  }
  float& Factor(int64_t row, int64_t split) const { return factors[row * n_splits + split]; }
};

// Of the queries of an item the first one whose probabilities are asked for: item.query_end where
// none are.
inline int64_t FirstMassQuery(const SequenceRows& rows, const FlashItem& item) {
  const int64_t first = rows.n_tokens - rows.mass_tokens;
  return first < item.query_begin ? item.query_begin
                                  : (first < item.query_end ? first : item.query_end);
}

// A worker's own.
struct WorkerScratch {
  float* q;           // [n_blocks][q_stride], packed
  float* q_units;     // [n_rows], where keys are scaled
  float* scores;      // [block_rows][kSplitKeys], of one block and split
  PartialRows left;   // [n_rows], the merged splits of an item that walks all keys
  PartialRows right;  // [block_rows], one split of one block
  float* keys;        // a split of keys, unpacked; only there for several blocks of rows
  float* values;      // and of values; also there where values are read out of keys
  int64_t q_stride;   // floats of a packed block: rows times dimensions, each at most a float

  // Of a split's keys or values as 16-bit integers, with a scale each.
  static int64_t UnpackedFloats(int width) { return kSplitKeys * (RoundUp16(width) / 2 + 1); }
  // Of a split's values in any codec, and behind them a tile's keys as words.
  static int64_t TurnedFloats(int width) { return kSplitKeys * (RoundUp16(width) + 1); }
  static int64_t Floats(HeadWidths widths, int64_t n_rows, int block_rows) {
    const int64_t n_blocks = (n_rows + block_rows - 1) / block_rows;
    const int64_t unpacked_values = widths.v_in_k  ? TurnedFloats(widths.v)
                                    : n_blocks > 1 ? UnpackedFloats(widths.v)
                                                   : 0;
    return (n_blocks * RoundUp16(widths.k) + kSplitKeys) * block_rows + RoundUp16(n_rows) +
           PartialRows::Floats(widths.v, n_rows) + PartialRows::Floats(widths.v, block_rows) +
           (n_blocks > 1 || widths.v_in_k ? UnpackedFloats(widths.k) : 0) + unpacked_values;
  }
  static WorkerScratch At(float* memory, HeadWidths widths, int64_t n_rows, int block_rows) {
    const int64_t q_stride = RoundUp16(widths.k) * block_rows;
    float* q_units = memory + (n_rows + block_rows - 1) / block_rows * q_stride;
    float* scores = q_units + RoundUp16(n_rows);
    float* left = scores + kSplitKeys * block_rows;
    float* right = left + PartialRows::Floats(widths.v, n_rows);
    float* keys = right + PartialRows::Floats(widths.v, block_rows);
    return {memory,
            q_units,
            scores,
            PartialRows::At(left, widths.v, n_rows),
            PartialRows::At(right, widths.v, block_rows),
            keys,
            keys + UnpackedFloats(widths.k),
            q_stride};
  }
};

// Shared by the items of the same rows, at FlashItem::partials of the scratch: how many splits
// are still to be computed, then the result of each. Whoever brings the count to zero merges them.
struct SharedPartials {
  static constexpr int64_t kCountFloats = 16;  // a count, alone in its cache line

  static int64_t Floats(int v_head_dim, int64_t n_rows, int64_t n_splits) {
    return kCountFloats + n_splits * PartialRows::Floats(v_head_dim, n_rows);
  }
  static PartialRows Split(float* memory, int64_t split, int v_head_dim, int64_t n_rows) {
    return PartialRows::At(memory + Floats(v_head_dim, n_rows, split), v_head_dim, n_rows);
  }
};

}  // namespace ng

#endif  // NG_PLUGINS_ATTENTION_FLASH_FLASH_SCRATCH_H_
