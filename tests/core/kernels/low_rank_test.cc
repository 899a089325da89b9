// What adapters add to a product, on every ISA level: the documented chain, bit by bit.
#include "core/kernels/low_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/kernels/matmul.h"
#include "ng/isa.h"
#include "tests/core/kernels/test_support.h"

namespace ng {
namespace {

class LowRankTest : public ::testing::TestWithParam<IsaLevel> {};

// Two parts with ranks of their own, which meet within a block of 16, as q and k do.
struct LowRankProblem {
  static constexpr int64_t kRanks = 5;       // of both parts
  static constexpr int64_t kFirstRanks = 2;  // of the first

  int64_t n = 0;
  int64_t k = 0;
  std::vector<float> a = RandomFloats(kRanks * k, 1);  // [kRanks, k]
  std::vector<float> b = RandomFloats(n * kRanks, 2);  // [n, kRanks], 0 of the other part
  std::vector<float> factors = RandomFloats((n + 15) / 16 * 16, 3);
  std::vector<float> offsets = RandomFloats((n + 15) / 16 * 16, 4);

  LowRank Make(bool with_factors) {
    LowRank made;
    made.a = *PackedMatrix::Allocate(WeightType::kF32, kRanks, k);
    made.a.PackRows(0, kRanks, a.data());
    const int64_t boundary = n / 2;
    for (int64_t c = 0; c < n; ++c) {
      for (int64_t r = 0; r < kRanks; ++r) {
        if ((c < boundary) != (r < kFirstRanks)) b[static_cast<size_t>(c * kRanks + r)] = 0.0F;
      }
    }
    for (int64_t begin = 0; begin < n; begin += 16) {
      const int64_t end = std::min(begin + 16, n);
      LowRank::Block block = {begin < boundary ? 0 : kFirstRanks, 0,
                              static_cast<int64_t>(made.b.size())};
      block.n = (end <= boundary ? kFirstRanks : kRanks) - block.first;
      for (int64_t r = block.first; r < block.first + block.n; ++r) {
        for (int64_t c = begin; c < begin + 16; ++c) {
          made.b.push_back(c < n ? b[static_cast<size_t>(c * kRanks + r)] : 0.0F);
        }
      }
      made.blocks.push_back(block);
    }
    if (with_factors) {
      made.factors = factors;
      made.offsets = offsets;
    }
    return made;
  }
};

// A product of random rows with a random matrix, some of the rows with what is added.
class LowRankProduct {
 public:
  LowRankProduct(IsaLevel level, LowRankProblem& problem, int64_t n_rows, bool with_factors)
      : kernels_(Kernels(level)),
        problem_(problem),
        added_(problem.Make(with_factors)),
        n_rows_(n_rows),
        // All rows but the first and, of many, the last two.
        begin_(n_rows > 1 ? 1 : 0),
        end_(n_rows > 5 ? n_rows - 2 : n_rows),
        x_(RandomFloats(n_rows * problem.k, 6)),
        w_(*PackedMatrix::Allocate(WeightType::kF32, problem.n, problem.k)) {
    w_.PackRows(0, problem.n, RandomFloats(problem.n * problem.k, 5).data());
    inner_ =
        Multiply(added_.a, FloatRows(x_.data() + begin_ * problem.k, end_ - begin_, problem.k));
    plain_ = Multiply(w_, Input());
  }

  MatmulInput Input() const { return FloatRows(x_.data(), n_rows_, problem_.k); }

  std::vector<float> Multiply(const PackedMatrix& w, const MatmulInput& input) {
    std::vector<float> out(static_cast<size_t>(input.n_rows * w.n()));
    EXPECT_TRUE(
        Matmul({kernels_, executor_, w, nullptr, input}, {out.data(), {input.n_rows, w.n()}}).ok());
    return out;
  }

  // Into a matrix, and into a sink.
  std::vector<std::vector<float>> Outputs() {
    const LowRankRows rows = {begin_, end_, &added_, inner_.data()};
    MatmulInput input = Input();
    input.low_ranks = {&rows, 1};
    std::vector<float> sunk(plain_.size());
    std::vector<float> scratch(static_cast<size_t>(MatmulScratchFloats(3, n_rows_)));
    const auto sink = [&](const MatmulTile& tile) {
      for (int64_t row = tile.row; row < tile.row + tile.n_rows; ++row) {
        std::copy_n(tile.Row(row), tile.n_columns, sunk.data() + row * problem_.n + tile.column);
      }
    };
    EXPECT_TRUE(Matmul({kernels_, executor_, w_, nullptr, input}, scratch, sink).ok());
    return {Multiply(w_, input), sunk};
  }

  float Expected(int64_t row, int64_t c) const {
    const float plain = plain_[static_cast<size_t>(row * problem_.n + c)];
    if (row < begin_ || row >= end_) return plain;
    const LowRank::Block& block = added_.blocks[static_cast<size_t>(c / 16)];
    float sum = 0.0F;
    for (int64_t r = 0; r < block.n; ++r) {
      const int64_t rank = (row - begin_) * LowRankProblem::kRanks + block.first + r;
      sum = std::fma(inner_[static_cast<size_t>(rank)],
                     added_.b[static_cast<size_t>(block.at + r * 16 + c % 16)], sum);
    }
    if (added_.factors.empty()) return plain + sum;
    const auto at = static_cast<size_t>(c);
    return std::fma(added_.factors[at], plain, added_.offsets[at]) + sum;
  }

 private:
  const KernelTable& kernels_;
  const LowRankProblem& problem_;
  ThreadExecutor executor_ = ThreadExecutor(3);
  LowRank added_;
  int64_t n_rows_;
  int64_t begin_;
  int64_t end_;
  std::vector<float> x_;
  PackedMatrix w_;
  std::vector<float> inner_;
  std::vector<float> plain_;
};

TEST_P(LowRankTest, AddsTheDocumentedChainToItsRows) {
  for (const int64_t n : {1, 16, 23, 80, 200}) {
    for (const int64_t n_rows : {1, 3, 7, 40}) {
      for (const bool with_factors : {false, true}) {
        LowRankProblem problem = {.n = n, .k = 19};
        LowRankProduct product(GetParam(), problem, n_rows, with_factors);
        for (const std::vector<float>& out : product.Outputs()) {
          for (int64_t i = 0; i < n_rows * n; ++i) {
            ASSERT_EQ(Bits(out[static_cast<size_t>(i)]), Bits(product.Expected(i / n, i % n)))
                << n << " outputs, " << n_rows << " rows, factors " << with_factors << ": " << i;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllLevels, LowRankTest,
                         ::testing::ValuesIn(SupportedIsaLevels().begin(),
                                             SupportedIsaLevels().end()),
                         [](const auto& info) { return std::string(IsaName(info.param)); });

}  // namespace
}  // namespace ng
