// The kernels of one ISA level, behind one table that is chosen once when the engine opens.
//
// Bit contract: every output element is computed from its own row by a fixed sequence of operations
// that does not depend on the number of rows, on neighbouring columns or on threads.
#ifndef NG_CORE_KERNELS_KERNEL_TABLE_H_
#define NG_CORE_KERNELS_KERNEL_TABLE_H_

#include <cstdint>

#include "ng/isa.h"

namespace ng {

// How the weights of a matrix are held in memory.
enum class WeightType : int32_t { kF32 = 0, kBf16 = 1, kF16 = 2 };

inline constexpr int64_t kBlockColumns = 16;  // output columns packed side by side

// out[r, c] = sum_k x[r, k] * w[c, k] (+ bias[c]) for the columns of blocks [block_begin,
// block_end).
struct MatmulArgs {
  const float* x = nullptr;  // [n_rows, k], rows x_stride apart
  int64_t x_stride = 0;
  int64_t n_rows = 0;
  int64_t k = 0;
  const void* weights = nullptr;  // packed: see packed_matrix.h
  const float* bias = nullptr;    // [n_columns] or null
  float* out = nullptr;           // [n_rows, n_columns], rows out_stride apart
  int64_t out_stride = 0;
  int64_t n_columns = 0;  // in all; the last block may be partly filled
  int64_t block_begin = 0;
  int64_t block_end = 0;
};

struct KernelTable {
  IsaLevel isa;
  // Indexed by WeightType. Each output accumulates over k in rising order in one f32 accumulator,
  // from 0; the bias is added to the finished sum. Reads nothing beyond its operands and writes
  // nothing but the n_rows x n_columns of its blocks. REQUIRES: k >= 1, n_rows >= 1.
  void (*matmul[3])(const MatmulArgs& args);
  // out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]; one row of n; out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t n, float* out);
  // out[i] = silu(gate[i]) * up[i], silu(z) = z / (1 + e^-z); out may be gate or up.
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out);
  // x[i] += y[i].
  void (*add)(const float* y, int64_t n, float* x);
  // The largest value, and the sum of e^(x[i] - max) in f32 lanes, added in a fixed order.
  // NaN or +infinity anywhere, or nothing but -infinity, gives NaN in *sum; *max may miss a NaN.
  // REQUIRES: n >= 1.
  void (*max_and_sum_exp)(const float* x, int64_t n, float* max, float* sum);
};

// The table of a level. REQUIRES: the CPU supports it.
const KernelTable& Kernels(IsaLevel level);

// The tables themselves, for the dispatcher and the tests.
const KernelTable& ScalarKernels();
const KernelTable& Avx2Kernels();
const KernelTable& Avx512Kernels();
const KernelTable& Avx512VnniKernels();
const KernelTable& Avx512Bf16Kernels();

}  // namespace ng

#endif  // NG_CORE_KERNELS_KERNEL_TABLE_H_
