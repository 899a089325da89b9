// The matrix product on every ISA level. The reference is the documented chain itself (from 0, one
// multiply-add per k in rising order, then the bias), so results are compared bit by bit: no number
// of rows, block range, stride, tile or prefetch may show.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <tuple>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "core/kernels/packed_matrix.h"
#include "ng/isa.h"
#include "tests/core/kernels/test_support.h"

namespace ng {
namespace {

constexpr float kUntouched = -12345.0F;

struct Problem {
  WeightType type;
  int64_t rows;
  int64_t k;
  int64_t n;
  std::vector<float> x;     // [rows, k]
  std::vector<float> w;     // [n, k], as held: rounded to the type
  std::vector<float> bias;  // [n]
  PackedMatrix packed;
};

Problem MakeProblem(WeightType type, int64_t rows, int64_t k, int64_t n) {
  const auto seed = static_cast<uint32_t>(rows * 10007 + k * 101 + n);
  Problem p{.type = type,
            .rows = rows,
            .k = k,
            .n = n,
            .x = RandomFloats(rows * k, seed),
            .w = RandomFloats(n * k, seed + 1),
            .bias = RandomFloats(n, seed + 2),
            .packed = *PackedMatrix::Allocate(type, n, k)};
  p.packed.PackRows(0, n, p.w.data());
  for (int64_t c = 0; c < n; ++c) p.packed.CopyRow(c, p.w.data() + c * k);
  return p;
}

// [rows, n]
std::vector<float> Chain(const Problem& p, IsaLevel level, bool with_bias) {
  std::vector<float> out(p.rows * p.n);
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t c = 0; c < p.n; ++c) {
      const float* x = p.x.data() + r * p.k;
      const float* w = p.w.data() + c * p.k;
      float sum = 0.0F;
      for (int64_t k = 0; k < p.k; ++k) {
        sum = level == IsaLevel::kScalar ? x[k] * w[k] + sum : std::fma(x[k], w[k], sum);
      }
      out[r * p.n + c] = with_bias ? sum + p.bias[c] : sum;
    }
  }
  return out;
}

MatmulArgs Args(const Problem& p, float* out) {
  MatmulArgs args;
  args.x = p.x.data();
  args.x_stride = p.k;
  args.n_rows = p.rows;
  args.k = p.k;
  args.weights = p.packed.data();
  args.out = out;
  args.out_stride = p.n;
  args.n_columns = p.n;
  args.block_end = (p.n + kBlockColumns - 1) / kBlockColumns;
  return args;
}

class MatmulTest : public ::testing::TestWithParam<std::tuple<IsaLevel, WeightType>> {
 protected:
  IsaLevel level() const { return std::get<0>(GetParam()); }
  WeightType type() const { return std::get<1>(GetParam()); }
  void Run(const MatmulArgs& args) const {
    Kernels(level()).matmul[static_cast<int>(type())](args);
  }

  // Every number of rows up to p.rows gives the same bits, and touches nothing else of out.
  void CheckRowCounts(const Problem& p, const std::vector<int64_t>& counts) const {
    const std::vector<float> expected = Chain(p, level(), true);
    for (const int64_t rows : counts) {
      const int64_t stride = p.n + 3;
      std::vector<float> out(p.rows * stride, kUntouched);
      MatmulArgs args = Args(p, out.data());
      args.out_stride = stride;
      args.n_rows = rows;
      args.bias = p.bias.data();
      Run(args);
      for (int64_t r = 0; r < p.rows; ++r) {
        for (int64_t c = 0; c < stride; ++c) {
          const float want = r < rows && c < p.n ? expected[r * p.n + c] : kUntouched;
          ASSERT_EQ(Bits(out[r * stride + c]), Bits(want))
              << "row " << r << " of " << rows << ", column " << c << " of " << p.n << ", k "
              << p.k;
        }
      }
    }
  }
};

std::vector<int64_t> UpTo(int64_t n) {
  std::vector<int64_t> counts;
  for (int64_t i = 1; i <= n; ++i) counts.push_back(i);
  return counts;
}

TEST_P(MatmulTest, EveryDepthAndRowCountIsTheSameChain) {
  for (int64_t k = 1; k <= 70; ++k) {
    CheckRowCounts(MakeProblem(type(), 17, k, 1 + k * 7 % 50), UpTo(17));
    if (HasFatalFailure()) return;
  }
}

TEST_P(MatmulTest, EveryWidthAndRowCountIsTheSameChain) {
  for (int64_t n = 1; n <= 50; ++n) {
    CheckRowCounts(MakeProblem(type(), 17, 1 + n * 3 % 23, n), UpTo(17));
    if (HasFatalFailure()) return;
  }
}

TEST_P(MatmulTest, RunsOfALongSumContinueWhereTheyRested) {
  // Odd depths beyond the longest run of every tile, and enough rows for the unprefetched tiles.
  CheckRowCounts(MakeProblem(type(), 75, 301, 131), {1, 2, 6, 7, 12, 13, 72, 73, 75});
  CheckRowCounts(MakeProblem(type(), 7, 1153, 97), {1, 4, 7});
}

TEST_P(MatmulTest, IsCloseToTheExactSum) {
  const Problem p = MakeProblem(type(), 9, 1000, 40);
  std::vector<float> out(p.rows * p.n);
  Run(Args(p, out.data()));
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t c = 0; c < p.n; ++c) {
      double sum = 0;
      double magnitude = 0;
      for (int64_t k = 0; k < p.k; ++k) {
        const double product = static_cast<double>(p.x[r * p.k + k]) * p.w[c * p.k + k];
        sum += product;
        magnitude += std::abs(product);
      }
      ASSERT_NEAR(out[r * p.n + c], sum, magnitude * static_cast<double>(p.k) * 0x1p-24);
    }
  }
}

TEST_P(MatmulTest, BlockRangesAndStridesDoNotShow) {
  const Problem p = MakeProblem(type(), 8, 33, 150);  // 10 blocks, the last of 6 columns
  const std::vector<float> expected = Chain(p, level(), false);
  const int64_t x_stride = p.k + 5;
  std::vector<float> x(p.rows * x_stride, std::nanf(""));
  for (int64_t r = 0; r < p.rows; ++r) {
    std::copy_n(p.x.data() + r * p.k, p.k, x.data() + r * x_stride);
  }
  for (int64_t begin = 0; begin < 10; ++begin) {
    for (int64_t end = begin; end <= 10; ++end) {
      std::vector<float> out(p.rows * p.n, kUntouched);
      MatmulArgs args = Args(p, out.data());
      args.x = x.data();
      args.x_stride = x_stride;
      args.block_begin = begin;
      args.block_end = end;
      Run(args);
      for (int64_t i = 0; i < p.rows * p.n; ++i) {
        const int64_t block = i % p.n / kBlockColumns;
        const float want = block >= begin && block < end ? expected[i] : kUntouched;
        ASSERT_EQ(Bits(out[i]), Bits(want)) << "blocks " << begin << " to " << end << ", at " << i;
      }
    }
  }
}

TEST_P(MatmulTest, StaysInsideItsOperands) {
  for (const auto& [rows, k, n] : {std::tuple{1, 7, 5}, {1, 260, 70}, {6, 5, 49}, {13, 301, 67}}) {
    const Problem p = MakeProblem(type(), rows, k, n);
    GuardedArray<float> x(p.x);
    GuardedArray<float> bias(p.bias);
    GuardedArray<float> out(p.rows * p.n);
    GuardedArray<std::byte> weights(
        std::vector<std::byte>(p.packed.data(), p.packed.data() + p.packed.bytes()));
    MatmulArgs args = Args(p, out.data());
    args.x = x.data();
    args.weights = weights.data();
    args.bias = bias.data();
    Run(args);
    EXPECT_EQ(out.ToVector(), Chain(p, level(), true));
  }
}

TEST_P(MatmulTest, NaNStaysInItsOwnRow) {
  Problem p = MakeProblem(type(), 7, 40, 33);
  const std::vector<float> clean = Chain(p, level(), false);
  p.x[3 * p.k + 39] = std::nanf("");
  std::vector<float> out(p.rows * p.n);
  Run(Args(p, out.data()));
  for (int64_t i = 0; i < p.rows * p.n; ++i) {
    if (i / p.n == 3) {
      ASSERT_TRUE(std::isnan(out[i]));
    } else {
      ASSERT_EQ(Bits(out[i]), Bits(clean[i]));
    }
  }
}

TEST_P(MatmulTest, ThreadsDoNotShow) {
  for (const auto& [rows, n] : {std::pair{1, 1}, {1, 150}, {5, 33}, {130, 20}, {97, 90}}) {
    const Problem p = MakeProblem(type(), rows, 37, n);
    const std::vector<float> expected = Chain(p, level(), true);
    for (const int threads : {1, 2, 3}) {
      ThreadExecutor executor(threads);
      std::vector<float> out(p.rows * p.n, kUntouched);
      ASSERT_TRUE(Matmul(Kernels(level()), executor, p.packed, p.bias.data(),
                         TensorView<const float, 2>(p.x.data(), {p.rows, p.k}),
                         TensorView<float, 2>(out.data(), {p.rows, p.n}))
                      .ok());
      ASSERT_EQ(out, expected) << rows << " rows, " << n << " columns, " << threads << " threads";
    }
  }
}

const char* TypeName(WeightType type) {
  return type == WeightType::kF32 ? "F32" : type == WeightType::kBf16 ? "Bf16" : "F16";
}

INSTANTIATE_TEST_SUITE_P(AllLevels, MatmulTest,
                         ::testing::Combine(::testing::ValuesIn(SupportedIsaLevels().begin(),
                                                                SupportedIsaLevels().end()),
                                            ::testing::Values(WeightType::kF32, WeightType::kBf16,
                                                              WeightType::kF16)),
                         [](const auto& info) {
                           return std::string(IsaName(std::get<0>(info.param))) +
                                  TypeName(std::get<1>(info.param));
                         });

class FailingExecutor : public Executor {
 public:
  int threads() const override { return 2; }
  absl::Status Run(int64_t, Task, void*) override { return RuntimeError("a worker threw"); }
};

// [rows, k] times [n, k] of zeros.
absl::Status MultiplyZeros(Executor& executor, int64_t rows, int64_t n) {
  const PackedMatrix w = *PackedMatrix::Allocate(WeightType::kF32, n, 4);
  const std::vector<float> x(rows * 4);
  std::vector<float> out(rows * n);
  return Matmul(Kernels(IsaLevel::kScalar), executor, w, nullptr,
                TensorView<const float, 2>(x.data(), {rows, 4}),
                TensorView<float, 2>(out.data(), {rows, n}));
}

TEST(MatmulSplit, GivesRowsToThreadsWhenBlocksAreFew) {
  ThreadExecutor executor(2);
  ASSERT_TRUE(MultiplyZeros(executor, 512, 16).ok());
  EXPECT_GE(executor.n_items(), 8);
}

TEST(MatmulSplit, LeavesRowsTogetherWhenBlocksDivideEvenly) {
  ThreadExecutor executor(2);
  ASSERT_TRUE(MultiplyZeros(executor, 512, 6 * 16).ok());
  EXPECT_EQ(executor.n_items(), 6);
}

TEST(MatmulSplit, NoRowsAreNoWork) {
  FailingExecutor executor;
  EXPECT_TRUE(MultiplyZeros(executor, 0, 16).ok());
}

TEST(MatmulSplit, ReturnsTheExecutorsError) {
  FailingExecutor executor;
  EXPECT_EQ(MultiplyZeros(executor, 1, 16).message(), "a worker threw");
}

}  // namespace
}  // namespace ng
