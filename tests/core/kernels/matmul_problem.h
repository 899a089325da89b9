// A matrix product as data, and each output of it by the documented chain.
#ifndef NG_TESTS_CORE_KERNELS_MATMUL_PROBLEM_H_
#define NG_TESTS_CORE_KERNELS_MATMUL_PROBLEM_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "core/kernels/packed_matrix.h"
#include "ng/isa.h"
#include "tests/core/kernels/test_support.h"

namespace ng {

struct Problem {
  WeightType type;
  int64_t rows;
  int64_t k;
  int64_t n;
  std::vector<float> x;               // [rows, k]
  std::vector<float> w;               // [n, k], as held: rounded to the type
  std::vector<QuantSpan> spans = {};  // [n, k / span] of grids
  std::vector<float> bias;            // [n]
  PackedMatrix packed;
};

inline void PackColumns(Problem* p) {
  const auto n_spans = static_cast<size_t>(p->k / GridOf(p->type).span);  // of a column
  for (int64_t c = 0; c < p->n; ++c) {
    PackSpans({&c, 1}, std::span(p->spans).subspan(static_cast<size_t>(c) * n_spans, n_spans),
              &p->packed);
  }
}

// Spans have to be whole: of grids, k is rounded up to that.
inline Problem MakeProblem(WeightType type, int64_t rows, int64_t k, int64_t n) {
  const auto seed = static_cast<uint32_t>(rows * 10007 + k * 101 + n);
  if (IsGrid(type)) k = (k + GridOf(type).span - 1) / GridOf(type).span * GridOf(type).span;
  Problem p{.type = type,
            .rows = rows,
            .k = k,
            .n = n,
            .x = RandomFloats(rows * k, seed),
            .w = RandomFloats(n * k, seed + 1),
            .bias = RandomFloats(n, seed + 2),
            .packed = *PackedMatrix::Allocate(type, n, k)};
  if (IsGrid(type)) {
    std::mt19937 random(seed);
    const QuantGrid grid = GridOf(type);
    for (int64_t i = 0; i < n * k / grid.span; ++i) p.spans.push_back(RandomSpan(grid, random));
    PackColumns(&p);
  } else {
    p.packed.PackRows(0, n, p.w.data());
  }
  for (int64_t c = 0; c < n; ++c) p.packed.CopyRow(c, p.w.data() + c * k);
  return p;
}

// The rows of x as the level's kernel reads them, `gap` bytes apart.
inline std::vector<std::byte> Prepared(const Problem& p, IsaLevel level, int64_t gap = 0) {
  const KernelTable& kernels = Kernels(level);
  const auto type = static_cast<int>(p.type);
  const int64_t row_bytes = InputRowBytes(kernels.input[type], p.k);
  std::vector<std::byte> rows(p.rows * (row_bytes + gap) - gap, std::byte{0xFF});
  for (int64_t r = 0; r < p.rows; ++r) {
    std::byte* row = rows.data() + r * (row_bytes + gap);
    if (kernels.prepare[type] == nullptr) {
      std::memcpy(row, p.x.data() + r * p.k, row_bytes);
    } else {
      kernels.prepare[type](p.x.data() + r * p.k, p.k, row);
    }
  }
  return rows;
}

// One output of f32 inputs: from 0, one multiply-add per k in rising order.
inline float MulAddChain(const Problem& p, int64_t row, int64_t column) {
  float sum = 0.0F;
  for (int64_t k = 0; k < p.k; ++k) {
    sum = std::fma(p.x[row * p.k + k], p.w[column * p.k + k], sum);
  }
  return sum;
}

// One output of byte inputs: an exact sum of whole numbers per group, scaled and added in f32, and
// then the minimum of as many inputs.
inline float GroupChain(const Problem& p, const std::vector<std::byte>& prepared, int64_t row,
                        int64_t column) {
  const QuantGrid grid = GridOf(p.type);
  const int64_t n_blocks = (p.k + kQuantBlock - 1) / kQuantBlock;
  const auto block_bytes = static_cast<int64_t>(prepared.size()) / (p.rows * n_blocks);
  float sum = 0.0F;
  for (int64_t k = 0; k < p.k; k += grid.group) {
    QuantizedInput input;
    std::memcpy(&input, prepared.data() + (row * n_blocks + k / kQuantBlock) * block_bytes,
                sizeof(input));
    const QuantSpan& span = p.spans[(column * p.k + k) / grid.span];
    const int64_t in_span = k % grid.span;
    int64_t whole = 0;
    int64_t inputs = 0;
    for (int64_t i = 0; i < grid.group; ++i) {
      const int64_t at = (k + i) % kQuantBlock;
      whole += grid.ValueOf(span.q[in_span + i]) * input.q[at];
      inputs += input.q[at];
    }
    const int64_t group = in_span / grid.group;
    const float scale =
        FactorOf(grid, span.d) * static_cast<float>(grid.grouped() ? span.scales[group] : 1);
    sum = std::fma(scale * input.scale, static_cast<float>(whole), sum);
    if (!grid.has_minimum) continue;
    const float minimum =
        MinimumOf(grid, span.dmin) * static_cast<float>(grid.grouped() ? span.minima[group] : 1);
    sum = std::fma(minimum, -(input.scale * static_cast<float>(inputs)), sum);
  }
  return sum;
}

// One output of codes of floats: sums of a few products, from 0 by one multiply-add per k, each
// scaled and added.
inline float CodeChain(const Problem& p, int64_t row, int64_t column) {
  const QuantGrid grid = GridOf(p.type);
  float out = 0.0F;
  for (int64_t begin = 0; begin < p.k; begin += grid.summed()) {
    const QuantSpan& span = p.spans[(column * p.k + begin) / grid.span];
    float sum = 0.0F;
    for (int64_t k = begin; k < begin + grid.summed(); ++k) {
      const int64_t i = k % grid.span;
      const auto scale = static_cast<uint8_t>(span.scales[i / grid.group]);
      const float value = grid.floats[span.q[i]];
      sum =
          std::fma(p.x[row * p.k + k], grid.float_scales ? kE4m3Values[scale] * value : value, sum);
    }
    out = std::fma(FactorOf(grid, span.d), sum, out);
  }
  return out;
}

inline MatmulArgs Args(const Problem& p, IsaLevel level, const std::vector<std::byte>& x,
                       float* out) {
  MatmulArgs args;
  args.x = x.data();
  args.x_stride = InputRowBytes(Kernels(level).input[static_cast<int>(p.type)], p.k);
  args.n_rows = p.rows;
  args.k = p.k;
  args.weights = p.packed.data();
  args.out = out;
  args.out_stride = p.n;
  args.n_columns = p.n;
  args.block_end = (p.n + kBlockColumns - 1) / kBlockColumns;
  return args;
}

// [rows, n]. Pairs of bf16 have no portable twin: there one row and one block at a time must do.
inline std::vector<float> Chain(const Problem& p, IsaLevel level, bool with_bias) {
  const std::vector<std::byte> prepared = Prepared(p, level);
  const InputType input = Kernels(level).input[static_cast<int>(p.type)];
  std::vector<float> out(p.rows * p.n);
  if (input == InputType::kBf16) {
    for (int64_t r = 0; r < p.rows; ++r) {
      MatmulArgs args = Args(p, level, prepared, out.data() + r * p.n);
      args.x += r * args.x_stride;
      args.n_rows = 1;
      for (int64_t block = 0; block * kBlockColumns < p.n; ++block) {
        args.block_begin = block;
        args.block_end = block + 1;
        args.out = out.data() + r * p.n + block * kBlockColumns;
        Kernels(level).matmul[static_cast<int>(p.type)](args);
      }
    }
  }
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t c = 0; c < p.n; ++c) {
      float& sum = out[r * p.n + c];
      if (input == InputType::kF32) {
        sum = IsGrid(p.type) ? CodeChain(p, r, c) : MulAddChain(p, r, c);
      }
      if (IsBytes(input)) sum = GroupChain(p, prepared, r, c);
      if (with_bias) sum += p.bias[c];
    }
  }
  return out;
}

}  // namespace ng

#endif  // NG_TESTS_CORE_KERNELS_MATMUL_PROBLEM_H_
