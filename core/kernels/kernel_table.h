// The kernels of one ISA level, behind one table that is chosen once when the engine opens.
//
// Bit contract: every output element is computed from its own row by a fixed sequence of operations
// that does not depend on the number of rows, on neighbouring columns or on threads.
#ifndef NG_CORE_KERNELS_KERNEL_TABLE_H_
#define NG_CORE_KERNELS_KERNEL_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "core/kernels/weight_type.h"
#include "ng/isa.h"

namespace ng {

// Which two dimensions of a head rotate together: (2i, 2i + 1), or (i, i + head_dim / 2).
enum class RopePairing : int32_t { kInterleaved = 0, kHalfSplit = 1 };

// The type in which a matmul reads its input rows. A row is rounded once, before all the matmuls
// that read it. Rounding never depends on the number of rows.
enum class InputType { kF32, kBf16, kInt8, kInt8Split };

constexpr bool IsBytes(InputType type) {
  return type == InputType::kInt8 || type == InputType::kInt8Split;
}

// 32 inputs on a grid of their own: x[i] is about scale * q[i], with scale = max |x| / 127. If one
// of them is NaN or infinite, the scale is NaN.
struct QuantizedInput {
  float scale;
  int16_t sums[2];  // sum of the first 16 q and of the last 16, for grids whose zero is not 0
  int8_t q[kQuantBlock];
};
static_assert(sizeof(QuantizedInput) == 40);

// The same with each q as 16 * high + low, -8 <= low <= 7 and |high| <= 8, for levels that add
// products of bytes in 16 bits: 32 products of a weight below 256 and such a part fit.
struct SplitInput : QuantizedInput {
  int8_t high[kQuantBlock];
  int8_t low[kQuantBlock];
};
static_assert(sizeof(SplitInput) == 104);

// Bytes of one row of k inputs: f32 [k]; bf16 [k], padded to pairs; int8 QuantizedInput or
// SplitInput [k/32], padded to blocks.
constexpr int64_t InputRowBytes(InputType type, int64_t k) {
  const int64_t blocks = (k + kQuantBlock - 1) / kQuantBlock;
  switch (type) {
    case InputType::kF32:
      return k * int64_t{sizeof(float)};
    case InputType::kBf16:
      return (k + 1) / 2 * 4;
    case InputType::kInt8:
      return blocks * int64_t{sizeof(QuantizedInput)};
    case InputType::kInt8Split:
      return blocks * int64_t{sizeof(SplitInput)};
  }
  return 0;
}

// out[r, c] = sum_k x[r, k] * w[c, k] (+ bias[c]) for the columns of blocks [block_begin,
// block_end).
struct MatmulArgs {
  const std::byte* x = nullptr;  // [n_rows] rows of the table's input type
  int64_t x_stride = 0;          // bytes
  int64_t n_rows = 0;
  int64_t k = 0;
  const std::byte* weights = nullptr;  // packed: see packed_matrix.h
  const float* bias = nullptr;         // [n_columns] or null
  float* out = nullptr;                // [n_rows, columns of the blocks], rows out_stride apart
  int64_t out_stride = 0;
  int64_t n_columns = 0;  // of the whole matrix; the last block may be partly filled
  int64_t block_begin = 0;
  int64_t block_end = 0;
};

// What adapters add to a block of 16 outputs of some rows (low_rank.h).
struct AddLowRankArgs {
  const float* inner = nullptr;  // [n_rows, n_ranks], rows inner_stride apart
  int64_t inner_stride = 0;
  int64_t n_ranks = 0;
  const float* b = nullptr;        // [n_ranks, 16]
  const float* factors = nullptr;  // [16] or null
  const float* offsets = nullptr;  // [16]; null where `factors` is
  float* out = nullptr;            // [n_rows, n_columns], rows out_stride apart
  int64_t out_stride = 0;
  int64_t n_rows = 0;
  int n_columns = 0;  // at most 16
};

// The last tokens of a convolution over time, column by column.
struct ConvolveArgs {
  const float* const* rows = nullptr;  // [taps], the oldest first; each [n]
  int taps = 0;
  const float* weights = nullptr;  // [taps] rows, weight_stride apart; each [n]
  int64_t weight_stride = 0;
  const float* bias = nullptr;  // [n] or null
  bool silu = false;            // of the sum
  int64_t n = 0;
  float* out = nullptr;  // [n]; may be any of the rows
};

// One token in one head of a state.
struct RecurArgs {
  const float* before = nullptr;  // [key_dim, value_dim]
  float* after = nullptr;         // the same; may be `before`
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  const float* key = nullptr;    // [key_dim]
  const float* query = nullptr;  // [key_dim]
  const float* value = nullptr;  // [value_dim]
  float decay = 0.0F;
  float write = 0.0F;
  bool delta = false;
  float* out = nullptr;  // [value_dim]
};

inline constexpr int64_t kLogitBlock = 64;  // sampling looks at so many logits together
inline constexpr int kMassBars = 8;
inline constexpr int kNearBars = 4;

// A row of logits and what is known about it; n_blocks = ceil(n / kLogitBlock).
struct LogitRow {
  const float* logits = nullptr;  // [n]
  int64_t n = 0;                  // >= 1
  float* block_max = nullptr;     // [n_blocks]: the largest logit
  float* weights = nullptr;       // [n]
  float* block_sums = nullptr;    // [n_blocks]: the sum of the weights
  // The order of the row. Null: by falling logit. Else by rising distance from this: what is
  // compared with a bar is the nearness -|logit - *centre|.
  const float* centre = nullptr;
};

// What mark_near finds out about the nearness of a row's logits and kNearBars bars, which fall;
// n_blocks as above.
struct NearMarks {
  double* masses = nullptr;    // [kNearBars]: as mass_at_least gives them
  uint64_t* above = nullptr;   // [n_blocks]: bit i % 64 of word i / 64: at least the first bar
  uint64_t* within = nullptr;  // [n_blocks]: below the first bar, at least the last one
};

struct KernelTable {
  IsaLevel isa;
  // Indexed by WeightType. Each output is summed over rising k in one f32 accumulator that begins
  // at
  // 0. It adds input by input; on the BF16 level with bf16 weights pair by pair; for grids group by
  // group, each an exact integer sum and then the group's minimum. Of codes of floats 32 or 64
  // inputs are summed by themselves, and their sum is scaled. The bias is added to the finished
  // sum. Reads nothing beyond its operands, and writes only the n_rows x n_columns of its
  // blocks. REQUIRES: k >= 1, n_rows >= 1; for grids with spans of 256, k is a multiple of 256.
  void (*matmul[kWeightTypes])(const MatmulArgs& args);
  // The type of input rows that each of these matmuls reads.
  InputType input[kWeightTypes];
  // Rounds one row of k inputs to that type; null where f32 rows are read as they are.
  void (*prepare[kWeightTypes])(const float* x, int64_t k, std::byte* row);
  // Adds to each output the sum over rising ranks of inner * b, in one f32 accumulator that begins
  // at 0; where there are factors the output is first its factor times itself plus its offset.
  void (*add_low_rank)(const AddLowRankArgs& args);
  // out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]; one row of n; out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t n, float* out);
  // out[i] = (x[i] - mean(x)) / sqrt(variance(x) + eps) * weight[i], with the biased variance; one
  // row of n; out may be x.
  void (*layer_norm)(const float* x, const float* weight, float eps, int64_t n, float* out);
  // out[i] = silu(gate[i]) * up[i], silu(z) = z / (1 + e^-z), for n values. gate_up: [n / 16, 2,
  // 16], gate and up in turn; the last 16 of each are complete.
  void (*silu_mul)(const float* gate_up, int64_t n, float* out);
  // out[i] = x[i] * Phi(x[i]), where Phi is that of the normal distribution or its approximation by
  // tanh; out may be x. The relative error against the formula in double is at most
  // 1e-6 + 1.5e-7 * x^2 (measured: 5e-7 for |x| < 1). A result that is closer to 0 than 1e-36 may
  // become 0.
  void (*gelu_erf)(const float* x, int64_t n, float* out);
  void (*gelu_tanh)(const float* x, int64_t n, float* out);
  // x[i] *= silu(gate[i]).
  void (*silu_gate)(const float* gate, int64_t n, float* x);
  // out[i] = bias[i] + the sum over the taps of weights * rows, the oldest first; then silu.
  void (*convolve)(const ConvolveArgs& args);
  // after = decay * before + key^T written, with written = write * value; with `delta` the value
  // is first reduced by what the faded state gives for the key: write * (value - key * decay *
  // before). Then out = query * after. Sums go over rising key dimensions.
  void (*recur)(const RecurArgs& args);
  // x[i] += y[i].
  void (*add)(const float* y, int64_t n, float* x);
  // Indexed by RopePairing. Rotates n_heads heads, which lie side by side, in place. Pair i (x, y)
  // becomes (x * cos[i] - y * sin[i], y * cos[i] + x * sin[i]). It rounds after every operation, so
  // the bits are the same on every level. half is head_dim / 2; cos_sin: [2, half].
  void (*rotate[2])(const float* cos_sin, int64_t half, int64_t n_heads, float* heads);
  // The largest value, and the sum of e^(x[i] - max) in f32 lanes, added in a fixed order.
  // If any value is NaN or +infinity, or all are -infinity, *sum is NaN; *max may miss a NaN.
  // REQUIRES: n >= 1.
  void (*max_and_sum_exp)(const float* x, int64_t n, float* max, float* sum);
  // These kernels are what sampling computes over a row of logits. All but the first two REQUIRE
  // that one of the first two has returned true for the row.
  //
  // Fills block_max. Returns false when there is a NaN or +infinity; block_max is then undefined.
  bool (*block_max)(const LogitRow& row);
  // The same for the row divided by `divisor`. Writes the quotients to `quotients` [n], which may
  // be the logits.
  bool (*divide_logits)(const LogitRow& row, float divisor, float* quotients);
  // weights[i] = e^(logits[i] - max) to within 2 ulp, 0 below e^-86.98; and block_sums.
  // REQUIRES: no logit is above max.
  void (*weigh_logits)(const LogitRow& row, float max);
  // Does the same and gives what weighted_sum would give then.
  double (*weigh_and_sum)(const LogitRow& row, float max);
  // masses[j] = the sum of the weights whose logits, or nearness, are at least bars[j]; there are
  // kMassBars masses and bars. Only every `every`-th block counts; 1: every block. A lower bar
  // never has a smaller mass, also after rounding.
  void (*mass_at_least)(const LogitRow& row, int64_t every, const float* bars, double* masses);
  // Writes the indices of the logits in [low, high), rising, to ids [n]. Returns how many there
  // are.
  int64_t (*list_within)(const LogitRow& row, float low, float high, int32_t* ids);
  // kept[i] = logits[i], or -infinity for a logit below the bar; kept: [n], may be the logits.
  // Adapts the weights, block_sums and block_max. Returns how many logits are left. REQUIRES:
  // weigh_logits has been called.
  int64_t (*drop_below)(const LogitRow& row, float bar, float* kept);
  // kept[i] = logits[i] or, where bit i % 64 of bits[i / 64] is not set, -infinity, [n]; block_max
  // follows, and so do the weights and block_sums where the row has weights (null: it has none).
  // Returns how many are left above -infinity. `kept` may be the logits. It may also be null where
  // the row has weights: then these and block_sums are all that follows, and 0 is returned.
  int64_t (*keep_marked)(const LogitRow& row, const uint64_t* bits, float* kept);
  // REQUIRES: row.centre is not null, -infinity < bars; weigh_logits has been called.
  void (*mark_near)(const LogitRow& row, const float* bars, const NearMarks& marks);
  // Of the logits above -infinity: how many there are, the sum of logits[i] - centre, and the sum
  // of its squares.
  void (*moments)(const LogitRow& row, float centre, double sums[3]);
  // The sum of weights[i] * (logits[i] - max). REQUIRES: weigh_logits has been called with max.
  double (*weighted_sum)(const LogitRow& row, float max);

  // The table of a level that was built: isa/.
  template <IsaLevel>
  static const KernelTable& At();
};

// The table of a level. REQUIRES: the CPU supports it.
const KernelTable& Kernels(IsaLevel level);

}  // namespace ng

#endif  // NG_CORE_KERNELS_KERNEL_TABLE_H_
