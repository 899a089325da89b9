// The matrix product on every ISA level. The reference is the documented chain itself, so results
// are compared bit by bit: no number of rows, block range, stride, tile or prefetch may show.
#include "core/kernels/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "core/kernels/packed_matrix.h"
#include "ng/half.h"
#include "ng/isa.h"
#include "tests/core/kernels/matmul_problem.h"
#include "tests/core/kernels/test_support.h"

namespace ng {
namespace {

constexpr float kUntouched = -12345.0F;

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
    const std::vector<std::byte> x = Prepared(p, level());
    for (const int64_t rows : counts) {
      const int64_t stride = p.n + 3;
      std::vector<float> out(p.rows * stride, kUntouched);
      MatmulArgs args = Args(p, level(), x, out.data());
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
  Run(Args(p, level(), Prepared(p, level()), out.data()));
  const InputType input = Kernels(level()).input[static_cast<int>(type())];
  // Besides the sum's own rounding: half a unit of a bf16 input, or half a step of 1 / 127.
  const double input_error = input == InputType::kBf16 ? 0x1p-9
                             : IsBytes(input)          ? 0.5 / 127.0
                                                       : 0.0;
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t c = 0; c < p.n; ++c) {
      double sum = 0;
      double weights = 0;  // inputs are below 1
      for (int64_t k = 0; k < p.k; ++k) {
        sum += static_cast<double>(p.x[r * p.k + k]) * p.w[c * p.k + k];
        weights += std::abs(p.w[c * p.k + k]);
      }
      ASSERT_NEAR(out[r * p.n + c], sum,
                  weights * (static_cast<double>(p.k) * 0x1p-24 + input_error));
    }
  }
}

// x with each 256 inputs of a row rounded to 255 steps, as ggml multiplies its K types.
std::vector<double> RoundedBy256(const Problem& p) {
  constexpr int64_t kSpan = 256;
  std::vector<double> rounded;
  for (auto x = p.x.begin(); x != p.x.end(); x += kSpan) {
    double max = 0;
    for (int64_t i = 0; i < kSpan; ++i) max = std::max<double>(max, std::abs(x[i]));
    for (int64_t i = 0; i < kSpan; ++i) {
      rounded.push_back(std::nearbyint(x[i] * 127.0 / max) * max / 127.0);
    }
  }
  return rounded;
}

// Inputs are rounded 32 at a time: of any blocks the product is nearer to the exact one than
// ggml's.
TEST_P(MatmulTest, ProductsOfRandomBlocksAreNearerToExactThanInputsRoundedBy256) {
  if (!IsGrid(type()) || !GridOf(type()).grouped()) GTEST_SKIP() << "ggml rounds 32 at a time too";
  Problem p = MakeProblem(type(), 9, 1024, 64);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& x : p.x) x = normal(random);
  const std::vector<double> rounded = RoundedBy256(p);
  std::vector<float> out(p.rows * p.n);
  Run(Args(p, level(), Prepared(p, level()), out.data()));
  double ours = 0;  // sums of squared distances
  double ggml = 0;
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t c = 0; c < p.n; ++c) {
      double exact = 0;
      double by_256 = 0;
      for (int64_t k = 0; k < p.k; ++k) {
        const double w = p.w[c * p.k + k];
        exact += w * p.x[r * p.k + k];
        by_256 += w * rounded[r * p.k + k];
      }
      ours += (out[r * p.n + c] - exact) * (out[r * p.n + c] - exact);
      ggml += (by_256 - exact) * (by_256 - exact);
    }
  }
  EXPECT_LT(std::sqrt(ours), 0.9 * std::sqrt(ggml));
}

// The largest weights, and inputs of which all parts of a SplitInput are at their limits: 120 is
// 16 * 8 - 8.
TEST_P(MatmulTest, TheLargestSumsAreExact) {
  if (!IsGrid(type())) GTEST_SKIP() << "sums of f32";
  const QuantGrid grid = GridOf(type());
  for (const int largest : {(1 << grid.bits()) - 1, 0}) {
    Problem p = MakeProblem(type(), 8, 64, 20);
    for (QuantSpan& span : p.spans) {
      for (auto& q : span.q) q = static_cast<std::decay_t<decltype(q)>>(largest);
    }
    PackColumns(&p);
    for (int64_t r = 0; r < p.rows; ++r) {
      for (int64_t k = 0; k < p.k; ++k) {
        p.x[r * p.k + k] = (r % 2 == 0 ? 1.0F : -1.0F) * (k % kQuantBlock == r ? 127.0F : 120.0F);
      }
    }
    CheckRowCounts(p, UpTo(p.rows));
    if (HasFatalFailure()) return;
  }
}

class FloatCodesTest : public MatmulTest {};

// So that their prefill is as fast: where a level has dot products of bf16, codes take them too.
TEST_P(FloatCodesTest, InputsAreRoundedAsThoseOfBf16) {
  const auto& input = Kernels(level()).input;
  EXPECT_EQ(input[static_cast<int>(type())], input[static_cast<int>(WeightType::kBf16)]);
}

// How far the value of a code may be off, as a share of it. On levels with dot products of bf16,
// NF4 has the nearest numbers of bf16, and FP4 divides by 12.
float ErrorOfValues(WeightType type, IsaLevel level) {
  if (Kernels(level).input[static_cast<int>(type)] != InputType::kBf16) return 0.0F;
  return type == WeightType::kNf4 ? 1.0F / 519 : type == WeightType::kFp4 ? 0x1p-22F : 0.0F;
}

// Each row has one input, which is 1: it shows the weights.
TEST_P(FloatCodesTest, EveryCodeIsItsValue) {
  constexpr int64_t kDepth = 128;
  Problem p = MakeProblem(type(), kDepth, kDepth, 40);
  uint8_t code = 0;
  for (QuantSpan& span : p.spans) {
    for (uint8_t& q : span.q) q = code++ & ((1 << GridOf(type()).bits()) - 1);
  }
  PackColumns(&p);
  for (int64_t c = 0; c < p.n; ++c) p.packed.CopyRow(c, p.w.data() + c * p.k);
  std::ranges::fill(p.x, 0.0F);
  for (int64_t r = 0; r < p.rows; ++r) p.x[r * p.k + r] = 1.0F;
  for (const int64_t rows : {p.rows, int64_t{1}}) {
    std::vector<float> out(p.rows * p.n);
    const std::vector<std::byte> x = Prepared(p, level());
    for (int64_t r = 0; r < p.rows; r += rows) {
      MatmulArgs args = Args(p, level(), x, out.data() + r * p.n);
      args.x += r * args.x_stride;
      args.n_rows = rows;
      Run(args);
    }
    for (int64_t r = 0; r < p.rows; ++r) {
      for (int64_t c = 0; c < p.n; ++c) {
        const float value = p.w[c * p.k + r];
        const float error = ErrorOfValues(type(), level());
        ASSERT_NEAR(out[r * p.n + c], value, error * std::abs(value)) << r << " " << c;
      }
    }
  }
}

TEST_P(MatmulTest, BlockRangesAndStridesDoNotShow) {
  const Problem p = MakeProblem(type(), 8, 33, 150);  // 10 blocks, the last of 6 columns
  const std::vector<float> expected = Chain(p, level(), false);
  constexpr int64_t kGap = 24;
  const std::vector<std::byte> x = Prepared(p, level(), kGap);
  for (int64_t begin = 0; begin < 10; ++begin) {
    for (int64_t end = begin; end <= 10; ++end) {
      std::vector<float> out(p.rows * p.n, kUntouched);
      MatmulArgs args = Args(p, level(), x, out.data());
      args.x_stride += kGap;
      args.block_begin = begin;
      args.block_end = end;
      args.out += begin * kBlockColumns;
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
    const std::vector<std::byte> prepared = Prepared(p, level());
    GuardedArray<std::byte> x(prepared);
    GuardedArray<float> bias(p.bias);
    GuardedArray<float> out(p.rows * p.n);
    GuardedArray<std::byte> weights(
        std::vector<std::byte>(p.packed.data(), p.packed.data() + p.packed.bytes()));
    MatmulArgs args = Args(p, level(), prepared, out.data());
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
  Run(Args(p, level(), Prepared(p, level()), out.data()));
  for (int64_t i = 0; i < p.rows * p.n; ++i) {
    if (i / p.n == 3) {
      ASSERT_TRUE(std::isnan(out[i]));
    } else {
      ASSERT_EQ(Bits(out[i]), Bits(clean[i]));
    }
  }
}

TEST_P(MatmulTest, AnInputThatIsNotFiniteGivesNoFiniteSum) {
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    for (const int64_t at : {0, 17, 39}) {
      Problem p = MakeProblem(type(), 1, 40, 16);
      p.x[at] = bad;
      std::vector<float> out(p.n);
      Run(Args(p, level(), Prepared(p, level()), out.data()));
      EXPECT_FALSE(std::isfinite(out[0])) << bad << " at " << at;
    }
  }
}

TEST_P(MatmulTest, ThreadsDoNotShow) {
  for (const auto& [rows, n] : {std::pair{1, 1}, {1, 150}, {5, 33}, {130, 20}, {97, 90}}) {
    const Problem p = MakeProblem(type(), rows, 37, n);
    const std::vector<float> expected = Chain(p, level(), true);
    const std::vector<std::byte> x = Prepared(p, level());
    const MatmulInput input{x.data(), p.rows, p.k, static_cast<int64_t>(x.size()) / p.rows};
    for (const int threads : {1, 2, 3}) {
      ThreadExecutor executor(threads);
      std::vector<float> out(p.rows * p.n, kUntouched);
      ASSERT_TRUE(Matmul({Kernels(level()), executor, p.packed, p.bias.data(), input},
                         TensorView<float, 2>(out.data(), {p.rows, p.n}))
                      .ok());
      ASSERT_EQ(out, expected) << rows << " rows, " << n << " columns, " << threads << " threads";
    }
  }
}

TEST_P(MatmulTest, TheSinkIsHandedEveryOutputOnce) {
  for (const auto& [rows, n] : {std::pair{1, 150}, {7, 33}, {130, 20}, {97, 90}, {1100, 40}}) {
    const Problem p = MakeProblem(type(), rows, 37, n);
    const std::vector<float> expected = Chain(p, level(), true);
    const std::vector<std::byte> x = Prepared(p, level());
    const MatmulInput input{x.data(), p.rows, p.k, static_cast<int64_t>(x.size()) / p.rows};
    ThreadExecutor executor(2);
    std::vector<float> scratch(MatmulScratchFloats(2, rows));
    std::vector<float> seen(p.rows * p.n, 0.0F);
    ASSERT_TRUE(Matmul({Kernels(level()), executor, p.packed, p.bias.data(), input}, scratch,
                       [&](const MatmulTile& tile) {
                         EXPECT_EQ(tile.column % (2 * kBlockColumns), 0);
                         EXPECT_TRUE(tile.n_columns % (2 * kBlockColumns) == 0 ||
                                     tile.column + tile.n_columns == p.n);
                         for (int64_t r = tile.row; r < tile.row + tile.n_rows; ++r) {
                           for (int64_t c = 0; c < tile.n_columns; ++c) {
                             seen[r * p.n + tile.column + c] += tile.Row(r)[c];
                           }
                         }
                       })
                    .ok());
    ASSERT_EQ(seen, expected) << rows << " rows, " << n << " columns";
  }
}

TEST_P(MatmulTest, OfSeveralGivesTheBitsOfEachByItself) {
  const std::pair<int64_t, int64_t> sizes[] = {{1, 150}, {13, 70}, {2, 33}, {600, 20}, {5, 64}};
  std::vector<Problem> problems;
  std::vector<std::vector<std::byte>> inputs;
  for (const auto& [rows, n] : sizes) {
    problems.push_back(MakeProblem(type(), rows, 37 + n % 2, n));
    inputs.push_back(Prepared(problems.back(), level()));
  }
  for (const int threads : {1, 2, 3}) {
    ThreadExecutor executor(threads);
    std::vector<MatmulCall> calls;
    std::vector<std::vector<float>> seen;
    for (size_t i = 0; i < problems.size(); ++i) {
      const Problem& p = problems[i];
      const auto row_bytes = static_cast<int64_t>(inputs[i].size()) / p.rows;
      const MatmulInput input{inputs[i].data(), p.rows, p.k, row_bytes};
      calls.push_back({Kernels(level()), executor, p.packed, p.bias.data(), input});
      seen.emplace_back(p.rows * p.n, 0.0F);
    }
    std::vector<float> scratch(MatmulScratchFloats(threads, 600));
    ASSERT_TRUE(Matmuls(calls, scratch, [&](size_t call, const MatmulTile& tile) {
                  for (int64_t r = tile.row; r < tile.row + tile.n_rows; ++r) {
                    for (int64_t c = 0; c < tile.n_columns; ++c) {
                      seen[call][r * problems[call].n + tile.column + c] += tile.Row(r)[c];
                    }
                  }
                }).ok());
    for (size_t i = 0; i < problems.size(); ++i) {
      ASSERT_EQ(seen[i], Chain(problems[i], level(), true)) << i << ", " << threads << " threads";
    }
  }
}

std::vector<WeightType> AllTypes() {
  std::vector<WeightType> types;
  for (int i = 0; i < kWeightTypes; ++i) types.push_back(static_cast<WeightType>(i));
  return types;
}

std::vector<WeightType> FloatCodeTypes() {
  std::vector<WeightType> types = AllTypes();
  std::erase_if(types, [](WeightType type) { return !IsGrid(type) || IsIntegers(type); });
  return types;
}

std::string NameOfLevelAndType(const ::testing::TestParamInfo<MatmulTest::ParamType>& info) {
  return std::string(IsaName(std::get<0>(info.param))) + "_" +
         std::string(WeightTypeName(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(AllLevels, MatmulTest,
                         ::testing::Combine(::testing::ValuesIn(SupportedIsaLevels().begin(),
                                                                SupportedIsaLevels().end()),
                                            ::testing::ValuesIn(AllTypes())),
                         NameOfLevelAndType);
INSTANTIATE_TEST_SUITE_P(AllLevels, FloatCodesTest,
                         ::testing::Combine(::testing::ValuesIn(SupportedIsaLevels().begin(),
                                                                SupportedIsaLevels().end()),
                                            ::testing::ValuesIn(FloatCodeTypes())),
                         NameOfLevelAndType);

class FailingExecutor : public Executor {
 public:
  int threads() const override { return 2; }
  absl::Status Run(int64_t, Task, void*) override { return RuntimeError("a worker threw"); }
};

// [rows, k] times [n, k] of zeros.
absl::Status MultiplyZeros(Executor& executor, int64_t rows, int64_t n) {
  const PackedMatrix w = *PackedMatrix::Allocate(WeightType::kF32, n, 4);
  const std::vector<std::byte> x(rows * 16);
  std::vector<float> out(rows * n);
  return Matmul({Kernels(IsaLevel::kScalar), executor, w, nullptr, {x.data(), rows, 4, 16}},
                TensorView<float, 2>(out.data(), {rows, n}));
}

TEST(MatmulSplit, GivesRowsToThreadsWhenBlocksAreFew) {
  ThreadExecutor executor(2);
  ASSERT_TRUE(MultiplyZeros(executor, 512, 16).ok());
  EXPECT_GE(executor.n_items(), 8);
}

TEST(MatmulSplit, LeavesRowsTogetherWhenUnitsDivideEvenly) {
  ThreadExecutor executor(2);
  ASSERT_TRUE(MultiplyZeros(executor, 512, 16 * 16).ok());
  EXPECT_EQ(executor.n_items(), 4);
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
