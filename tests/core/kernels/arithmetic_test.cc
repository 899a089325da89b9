// Levels of one arithmetic give the same bits: every kernel of the table, on every level that the
// CPU has, over odd sizes and awkward values. matmul_test compares products with their definition.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "ng/isa.h"
#include "tests/core/kernels/test_support.h"
#include "tests/support/floats.h"

namespace ng {
namespace {

constexpr int64_t kSizes[] = {1, 2, 7, 15, 16, 17, 31, 33, 64, 65, 130, 577};

// Of all magnitudes; `wild`: with zeros, subnormals, infinities and NaNs among them.
std::vector<float> Values(int64_t n, uint32_t seed, bool wild) {
  constexpr float kWild[] = {0.0F, -0.0F, 1e-40F, -1e-42F, kInf, -kInf, kNan, 3e38F, -3e38F, 89.0F};
  std::mt19937 random(seed);
  std::vector<float> values = RandomFloats(n, seed + 1);
  for (float& value : values) {
    value = std::ldexp(value, static_cast<int>(random() % 12) - 6);
    if (wild && random() % 8 == 0) value = kWild[random() % std::size(kWild)];
  }
  return values;
}

using Outputs = std::vector<std::vector<float>>;
using Compute = std::function<Outputs(const KernelTable& kernels)>;

// Which NaN an operation makes is not promised.
bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (Bits(a[i]) != Bits(b[i]) && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  }
  return true;
}

// `compute` on each level against the first level of its arithmetic.
void ExpectOneResultPerArithmetic(const std::string& what, const Compute& compute) {
  for (const IsaLevel level : SupportedIsaLevels()) {
    IsaLevel first = level;
    for (const IsaLevel other : SupportedIsaLevels()) {
      if (ArithmeticOf(other).name == ArithmeticOf(level).name && other < first) first = other;
    }
    const Outputs got = compute(Kernels(level));
    const Outputs want = compute(Kernels(first));
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(SameBits(got[i], want[i]))
          << what << ", output " << i << ": " << IsaName(level) << " is not " << IsaName(first);
    }
  }
}

// `test(n, values)` for every size, tame and wild; values(k) gives n of them, others for each k.
template <class Test>
void ForEachInput(const Test& test) {
  for (const int64_t n : kSizes) {
    for (const bool wild : {false, true}) {
      test(n, [n, wild](int64_t times, uint32_t seed) { return Values(times * n, seed, wild); });
    }
  }
}

TEST(ArithmeticOfKernels, NormsAndActivations) {
  ForEachInput([](int64_t n, const auto& values) {
    const std::vector<float> x = values(1, 1);
    const std::vector<float> y = values(1, 2);
    const std::vector<float> gate_up = values(32, 3);
    ExpectOneResultPerArithmetic("n = " + std::to_string(n), [&](const KernelTable& kernels) {
      Outputs out(7, x);
      kernels.rms_norm(x.data(), y.data(), 1e-5F, n, out[0].data());
      kernels.layer_norm(x.data(), y.data(), 1e-5F, n, out[1].data());
      kernels.silu_mul(gate_up.data(), n, out[2].data());
      kernels.gelu_erf(x.data(), n, out[3].data());
      kernels.gelu_tanh(x.data(), n, out[4].data());
      kernels.silu_gate(y.data(), n, out[5].data());
      kernels.add(y.data(), n, out[6].data());
      return out;
    });
  });
}

TEST(ArithmeticOfKernels, RotationsAndSoftmaxes) {
  ForEachInput([](int64_t n, const auto& values) {
    const std::vector<float> cos_sin = values(2, 1);
    const std::vector<float> heads = values(2 * 3, 2);
    ExpectOneResultPerArithmetic("n = " + std::to_string(n), [&](const KernelTable& kernels) {
      Outputs out = {heads, heads, {0.0F, 0.0F}};
      kernels.rotate[0](cos_sin.data(), n, 3, out[0].data());
      kernels.rotate[1](cos_sin.data(), n, 3, out[1].data());
      kernels.max_and_sum_exp(heads.data(), n, out[2].data(), out[2].data() + 1);
      if (std::isnan(out[2][1])) out[2][0] = 0.0F;  // the maximum may miss a NaN
      return out;
    });
  });
}

TEST(ArithmeticOfKernels, ConvolutionsAndStates) {
  constexpr int64_t kKeys = 5;
  ForEachInput([](int64_t n, const auto& values) {
    const std::vector<float> rows = values(kKeys, 1);
    const std::vector<float> weights = values(kKeys, 2);
    const std::vector<float> vector = values(1, 3);
    const float* const taps[] = {rows.data(), rows.data() + n, rows.data() + 2 * n};
    ExpectOneResultPerArithmetic("n = " + std::to_string(n), [&](const KernelTable& kernels) {
      Outputs out = {vector, vector, rows, vector, rows};
      for (const bool silu : {false, true}) {
        kernels.convolve({.rows = taps,
                          .taps = 3,
                          .weights = weights.data(),
                          .weight_stride = n,
                          .bias = silu ? vector.data() : nullptr,
                          .silu = silu,
                          .n = n,
                          .out = out[0].data()});
      }
      for (const bool delta : {false, true}) {
        kernels.recur({.before = rows.data(),
                       .after = out[delta ? 4 : 2].data(),
                       .key_dim = kKeys,
                       .value_dim = n,
                       .key = weights.data(),
                       .query = weights.data() + (n > 1 ? kKeys : 0),
                       .value = vector.data(),
                       .decay = 0.7F,
                       .write = 0.4F,
                       .delta = delta,
                       .out = out[delta ? 3 : 1].data()});
      }
      return out;
    });
  });
}

// The words that mark what is near the centre. The masses are to the bit those that mass_at_least
// gives, since either may find the part of the order that counts.
std::vector<uint64_t> NearMarksOf(const KernelTable& kernels, LogitRow row, float centre) {
  row.centre = &centre;
  float bars[kMassBars];
  for (int j = 0; j < kMassBars; ++j) bars[j] = -0.25F * static_cast<float>(j + 1);
  double want[kMassBars];
  kernels.mass_at_least(row, 1, bars, want);
  const auto n_blocks = static_cast<size_t>((row.n + kLogitBlock - 1) / kLogitBlock);
  double masses[kNearBars];
  std::vector<uint64_t> above(n_blocks);
  std::vector<uint64_t> within(n_blocks);
  kernels.mark_near(row, bars, {masses, above.data(), within.data()});
  for (int j = 0; j < kNearBars; ++j) EXPECT_EQ(masses[j], want[j]) << row.n << " " << j;
  for (int64_t i = 0; i < row.n; ++i) {
    const float nearness = -std::abs(row.logits[i] - centre);
    const auto bit = [i](const std::vector<uint64_t>& words) {
      return (words[i / kLogitBlock] >> (i % kLogitBlock) & 1) != 0;
    };
    EXPECT_EQ(bit(above), nearness >= bars[0]) << row.n << " " << i;
    EXPECT_EQ(bit(within), nearness < bars[0] && nearness >= bars[kNearBars - 1]) << row.n;
  }
  above.insert(above.end(), within.begin(), within.end());
  return above;
}

// What sampling computes; its rows have no NaN and no +infinity.
TEST(ArithmeticOfKernels, RowsOfLogits) {
  for (const int64_t n : kSizes) {
    std::vector<float> logits = Values(n, 1, false);
    if (n > 2) logits[1] = -kInf;
    const std::vector<uint64_t> marks(static_cast<size_t>(n), 0x5A5AF00F12345678U);
    ExpectOneResultPerArithmetic("n = " + std::to_string(n), [&](const KernelTable& kernels) {
      std::vector<float> row = logits;
      Outputs out(6, logits);  // block_max, weights, block_sums, results; what is kept of two
      LogitRow args = {row.data(), n, out[0].data(), out[1].data(), out[2].data()};
      EXPECT_TRUE(kernels.divide_logits(args, 0.7F, row.data()));
      float max = row[0];
      for (const float logit : row) max = std::max(max, logit);
      out[3].clear();
      const auto result = [&](double value) {
        out[3].push_back(static_cast<float>(value));
        out[3].push_back(static_cast<float>(value - out[3].back()));
      };
      result(kernels.weigh_and_sum(args, max));
      result(kernels.weighted_sum(args, max));
      double sums[3];
      kernels.moments(args, max, sums);
      for (const double sum : sums) result(sum);
      float bars[kMassBars];
      double masses[kMassBars];
      for (int i = 0; i < kMassBars; ++i) bars[i] = max - 0.5F * static_cast<float>(i);
      kernels.mass_at_least(args, 1, bars, masses);
      for (const double mass : masses) result(mass);
      for (const uint64_t word : NearMarksOf(kernels, args, max - 1.0F)) {
        result(static_cast<double>(word >> 32));
        result(static_cast<double>(word & 0xffffffffU));
      }
      result(static_cast<double>(kernels.drop_below(args, max - 3.0F, out[4].data())));
      const std::vector<float> weights = out[1];
      EXPECT_EQ(kernels.keep_marked(args, marks.data(), nullptr), 0);  // the weights alone
      const Outputs alone = {out[1], out[2]};
      out[1] = weights;
      result(static_cast<double>(kernels.keep_marked(args, marks.data(), out[5].data())));
      const size_t n_blocks = static_cast<size_t>((n + kLogitBlock - 1) / kLogitBlock);
      EXPECT_EQ(alone[0], out[1]);
      EXPECT_TRUE(std::equal(out[2].begin(), out[2].begin() + n_blocks, alone[1].begin()));
      return out;
    });
  }
}

// Weights and input rows of every type: what one level rounds, another multiplies.
TEST(ArithmeticOfKernels, RoundedInputs) {
  for (const int64_t n : kSizes) {
    for (const bool wild : {false, true}) {
      const std::vector<float> x = Values(n, 1, wild);
      ExpectOneResultPerArithmetic("n = " + std::to_string(n), [&](const KernelTable& kernels) {
        Outputs out;
        for (int type = 0; type < kWeightTypes; ++type) {
          const InputType input = kernels.input[type];
          if (!IsBytes(input)) continue;
          std::vector<std::byte> row(static_cast<size_t>(InputRowBytes(input, n)));
          kernels.prepare[type](x.data(), n, row.data());
          std::vector<float>& values = out.emplace_back();
          const auto block_bytes = static_cast<size_t>(InputRowBytes(input, kQuantBlock));
          for (size_t at = 0; at < row.size(); at += block_bytes) {
            SplitInput block;
            std::memcpy(&block, row.data() + at, block_bytes);
            values.push_back(block.scale);
            for (const int16_t sum : block.sums) values.push_back(sum);
            for (const int8_t q : block.q) values.push_back(q);
            if (input == InputType::kInt8) continue;
            for (int64_t i = 0; i < kQuantBlock; ++i) {
              EXPECT_EQ(16 * block.high[i] + block.low[i], block.q[i]);
              EXPECT_LE(std::abs(block.high[i]), 8);
              EXPECT_TRUE(block.low[i] >= -8 && block.low[i] <= 7);
            }
          }
        }
        return out;
      });
    }
  }
}

}  // namespace
}  // namespace ng
