// What adapters add to the outputs of a matrix: the product of two narrow matrices (LoRA,
// arXiv:2106.09685), and a factor for each output (DoRA, arXiv:2402.09353).
//
// Made when a run is loaded and only read afterwards, from any thread.
#ifndef NG_CORE_KERNELS_LOW_RANK_H_
#define NG_CORE_KERNELS_LOW_RANK_H_

#include <cstdint>
#include <vector>

#include "core/kernels/packed_matrix.h"

namespace ng {

// out[c] becomes factors[c] * out[c] + offsets[c] + the sum over r of (a x)[r] * b[c, r], over
// rising r in one f32 accumulator. What several adapters add lies side by side in the ranks.
struct LowRank {
  // A block of 16 outputs reads some neighbouring ranks: q, k and v are one matrix, and each has
  // ranks of its own.
  struct Block {
    int64_t first = 0;  // rank
    int64_t n = 0;
    int64_t at = 0;  // where its values begin in b
  };

  PackedMatrix a;             // [n_ranks, the matrix's inputs] of f32
  std::vector<Block> blocks;  // [the matrix's outputs / 16, rounded up]
  std::vector<float> b;       // of each block [n, 16]
  // [blocks * 16], or empty: no output has one. Where the matmul adds a bias, an offset is
  // (1 - factor) * bias.
  std::vector<float> factors;
  std::vector<float> offsets;

  int64_t n_ranks() const { return a.n(); }
  int64_t bytes() const {
    return a.bytes() +
           static_cast<int64_t>((b.size() + factors.size() + offsets.size()) * sizeof(float));
  }
};

// Rows [begin, end) of a matmul's input, to which this is added.
struct LowRankRows {
  int64_t begin = 0;
  int64_t end = 0;
  const LowRank* low_rank = nullptr;
  const float* inner = nullptr;  // [end - begin, n_ranks]: a x
};

}  // namespace ng

#endif  // NG_CORE_KERNELS_LOW_RANK_H_
