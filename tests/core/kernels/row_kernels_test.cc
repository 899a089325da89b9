// The kernels over one row, on every ISA level, against double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/kernels/kernel_table.h"
#include "ng/isa.h"
#include "tests/core/kernels/test_support.h"
#include "tests/support/floats.h"

namespace ng {
namespace {

std::vector<int64_t> Lengths() {
  std::vector<int64_t> lengths;
  for (int64_t n = 1; n <= 70; ++n) lengths.push_back(n);
  lengths.insert(lengths.end(), {255, 576, 1000, 49152});
  return lengths;
}

class RowKernelsTest : public ::testing::TestWithParam<IsaLevel> {
 protected:
  const KernelTable& kernels() const { return Kernels(GetParam()); }
  float SumExp(const std::vector<float>& x) const {
    float max = 0;
    float sum = 0;
    kernels().max_and_sum_exp(x.data(), static_cast<int64_t>(x.size()), &max, &sum);
    return sum;
  }
};

TEST_P(RowKernelsTest, RmsNormDividesByTheRootMeanSquare) {
  for (const int64_t n : Lengths()) {
    GuardedArray<float> x(RandomFloats(n, 1));
    GuardedArray<float> weight(RandomFloats(n, 2));
    GuardedArray<float> out(n);
    kernels().rms_norm(x.data(), weight.data(), 1e-5F, n, out.data());
    double squares = 0;
    for (int64_t i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * x[i];
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(n) + 1e-5F);
    for (int64_t i = 0; i < n; ++i) {
      const double want = x[i] * scale * weight[i];
      ASSERT_NEAR(out[i], want, 1e-6 * std::abs(want) + 1e-30) << i << " of " << n;
    }
  }
}

TEST_P(RowKernelsTest, RmsNormWorksInPlace) {
  const std::vector<float> x = RandomFloats(45, 1);
  const std::vector<float> weight = RandomFloats(45, 2);
  std::vector<float> apart(45);
  std::vector<float> in_place = x;
  kernels().rms_norm(x.data(), weight.data(), 1e-5F, 45, apart.data());
  kernels().rms_norm(in_place.data(), weight.data(), 1e-5F, 45, in_place.data());
  EXPECT_EQ(in_place, apart);
}

TEST_P(RowKernelsTest, RmsNormOfZerosIsZero) {
  std::vector<float> x(20, 0.0F);
  const std::vector<float> weight(20, 1.0F);
  kernels().rms_norm(x.data(), weight.data(), 1e-5F, 20, x.data());
  EXPECT_EQ(x, std::vector<float>(20, 0.0F));
}

TEST_P(RowKernelsTest, LayerNormCentresAndDividesByTheDeviation) {
  for (const int64_t n : Lengths()) {
    for (const float offset : {0.0F, 3.0F}) {
      GuardedArray<float> x(RandomFloats(n, 1));
      for (int64_t i = 0; i < n; ++i) x[i] += offset;
      GuardedArray<float> weight(RandomFloats(n, 2));
      GuardedArray<float> out(n);
      kernels().layer_norm(x.data(), weight.data(), 1e-5F, n, out.data());
      const auto count = static_cast<double>(n);
      double mean = 0;
      double variance = 0;
      for (int64_t i = 0; i < n; ++i) mean += x[i] / count;
      for (int64_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean) / count;
      const double scale = 1.0 / std::sqrt(variance + 1e-5F);
      // What is subtracted is as precise as the mean.
      const double precision = 1e-6 * (1.0 + offset) * scale;
      for (int64_t i = 0; i < n; ++i) {
        const double want = (x[i] - mean) * scale * weight[i];
        ASSERT_NEAR(out[i], want, precision * std::abs(weight[i]) + 1e-6 * std::abs(want))
            << i << " of " << n;
      }
    }
  }
}

TEST_P(RowKernelsTest, LayerNormWorksInPlaceAndOnConstantRows) {
  const std::vector<float> x = RandomFloats(45, 1);
  const std::vector<float> weight = RandomFloats(45, 2);
  std::vector<float> apart(45);
  std::vector<float> in_place = x;
  kernels().layer_norm(x.data(), weight.data(), 1e-5F, 45, apart.data());
  kernels().layer_norm(in_place.data(), weight.data(), 1e-5F, 45, in_place.data());
  EXPECT_EQ(in_place, apart);
  std::vector<float> constant(20, 0.5F);
  kernels().layer_norm(constant.data(), weight.data(), 1e-5F, 20, constant.data());
  for (const float value : constant) EXPECT_EQ(value, 0.0F);
}

// The accuracy that the table promises, over all that matters of the axis.
TEST_P(RowKernelsTest, GeluIsTheFormulaInDouble) {
  for (const int64_t n : {1, 2, 15, 16, 17, 33, 4001}) {
    GuardedArray<float> x(n);
    for (int64_t i = 0; i < n; ++i) {
      x[i] = n == 1 ? -0.7F : -20.0F + 40.0F * static_cast<float>(i) / static_cast<float>(n - 1);
    }
    GuardedArray<float> by_erf(n);
    GuardedArray<float> by_tanh(n);
    kernels().gelu_erf(x.data(), n, by_erf.data());
    kernels().gelu_tanh(x.data(), n, by_tanh.data());
    for (int64_t i = 0; i < n; ++i) {
      const double z = x[i];
      const double precision = 1e-6 + 1.5e-7 * z * z;
      const double phi = 0.5 * std::erfc(-z / std::sqrt(2.0));
      const double u = std::sqrt(2.0 / M_PI) * (z + 0.044715 * z * z * z);
      const double by_tanh_want = z / (1.0 + std::exp(-2.0 * u));
      ASSERT_NEAR(by_erf[i], z * phi, precision * std::abs(z * phi) + 1e-36) << z;
      ASSERT_NEAR(by_tanh[i], by_tanh_want, precision * std::abs(by_tanh_want) + 1e-36) << z;
    }
  }
}

TEST_P(RowKernelsTest, GeluSaturatesWithoutNaN) {
  const std::vector<float> x = {-1000.0F, 1000.0F, 3e38F, -3e38F, 0.0F, kNan};
  for (const auto gelu : {kernels().gelu_erf, kernels().gelu_tanh}) {
    std::vector<float> out = x;
    gelu(out.data(), static_cast<int64_t>(out.size()), out.data());
    EXPECT_EQ(out[0], 0.0F);
    EXPECT_EQ(out[1], 1000.0F);
    EXPECT_EQ(out[2], 3e38F);
    EXPECT_EQ(out[3], 0.0F);
    EXPECT_EQ(out[4], 0.0F);
    EXPECT_TRUE(std::isnan(out[5]));
  }
}

// Where value i of the gate lies; up is 16 further.
int64_t GateAt(int64_t i) { return i / 16 * 32 + i % 16; }

TEST_P(RowKernelsTest, SiluMulGatesEachElement) {
  for (const int64_t n : Lengths()) {
    GuardedArray<float> gate_up(RandomFloats((n + 15) / 16 * 32, 3));
    GuardedArray<float> out(n);
    for (int64_t i = 0; i < n; ++i) gate_up[GateAt(i)] *= 30.0F;
    kernels().silu_mul(gate_up.data(), n, out.data());
    for (int64_t i = 0; i < n; ++i) {
      const double z = gate_up[GateAt(i)];
      const double want = z / (1.0 + std::exp(-z)) * gate_up[GateAt(i) + 16];
      ASSERT_NEAR(out[i], want, 1e-6 * std::abs(want) + 1e-30) << i << " of " << n;
    }
  }
}

TEST_P(RowKernelsTest, SiluSaturatesWithoutNaN) {
  const std::vector<float> gate = {-1000.0F, 1000.0F, -90.0F, 3e38F, -3e38F, 0.0F, 1e-40F, kNan};
  std::vector<float> gate_up(32, 1.0F);
  std::copy(gate.begin(), gate.end(), gate_up.begin());
  std::vector<float> out(gate.size());
  kernels().silu_mul(gate_up.data(), static_cast<int64_t>(gate.size()), out.data());
  EXPECT_EQ(out[0], 0.0F);
  EXPECT_EQ(out[1], 1000.0F);
  EXPECT_NEAR(out[2], 0.0F, 1e-36F);
  EXPECT_EQ(out[3], 3e38F);
  EXPECT_EQ(out[4], 0.0F);
  EXPECT_EQ(out[5], 0.0F);
  EXPECT_EQ(out[6], 5e-41F);
  EXPECT_TRUE(std::isnan(out[7]));
}

TEST_P(RowKernelsTest, AddIsExact) {
  for (const int64_t n : Lengths()) {
    const std::vector<float> before = RandomFloats(n, 5);
    GuardedArray<float> x(before);
    GuardedArray<float> y(RandomFloats(n, 6));
    kernels().add(y.data(), n, x.data());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x[i], before[i] + y[i]) << i << " of " << n;
  }
}

// Rounded after every operation, so every level gives the bits of the formula.
TEST_P(RowKernelsTest, RotateTurnsEachPairByItsAngleExactly) {
  constexpr int64_t kHeads = 3;
  for (const int64_t half : Lengths()) {
    if (half > 1000) continue;
    GuardedArray<float> cos_sin(RandomFloats(2 * half, 11));
    const std::vector<float> before = RandomFloats(kHeads * 2 * half, 12);
    for (const RopePairing pairing : {RopePairing::kInterleaved, RopePairing::kHalfSplit}) {
      const bool interleaved = pairing == RopePairing::kInterleaved;
      GuardedArray<float> heads(before);
      kernels().rotate[static_cast<int>(pairing)](cos_sin.data(), half, kHeads, heads.data());
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t i = 0; i < half; ++i) {
          const int64_t at_x = 2 * half * h + (interleaved ? 2 * i : i);
          const int64_t at_y = at_x + (interleaved ? 1 : half);
          const float cos = cos_sin[i];
          const float sin = cos_sin[half + i];
          const float x = before[static_cast<size_t>(at_x)];
          const float y = before[static_cast<size_t>(at_y)];
          ASSERT_EQ(heads[at_x], x * cos - y * sin) << i << " of " << half;
          ASSERT_EQ(heads[at_y], y * cos + x * sin) << i << " of " << half;
        }
      }
    }
  }
}

TEST_P(RowKernelsTest, MaxAndSumExpAreThoseOfASoftmax) {
  for (const int64_t n : Lengths()) {
    GuardedArray<float> x(RandomFloats(n, 7));
    for (int64_t i = 0; i < n; ++i) x[i] = x[i] * 20.0F - 40.0F;  // all negative: a padding 0 shows
    float max = 0;
    float sum = 0;
    kernels().max_and_sum_exp(x.data(), n, &max, &sum);
    ASSERT_EQ(max, *std::max_element(x.data(), x.data() + n)) << n;
    double want = 0;
    for (int64_t i = 0; i < n; ++i) want += std::exp(static_cast<double>(x[i]) - max);
    ASSERT_NEAR(sum, want, 2e-6 * want) << n;
  }
}

TEST_P(RowKernelsTest, SumExpIgnoresMaskedEntries) {
  EXPECT_EQ(SumExp({-kInf, 3.0F, -kInf}), 1.0F);
  EXPECT_EQ(SumExp({-1000.0F, 3.0F}), 1.0F);
}

TEST_P(RowKernelsTest, SumExpShowsEveryNaNAndInfinity) {
  for (const int64_t n : {1, 2, 16, 17, 40, 100}) {
    for (int64_t at = 0; at < n; ++at) {
      for (const float bad : {kNan, -kNan, kInf}) {
        std::vector<float> x = RandomFloats(n, 8);
        x[at] = bad;
        ASSERT_TRUE(std::isnan(SumExp(x))) << bad << " at " << at << " of " << n;
      }
    }
    ASSERT_TRUE(std::isnan(SumExp(std::vector<float>(n, -kInf)))) << n;
  }
}

TEST_P(RowKernelsTest, RmsNormPassesNaNOn) {
  for (const int64_t at : {0, 15, 16, 19}) {
    std::vector<float> x = RandomFloats(20, 9);
    x[at] = kNan;
    const std::vector<float> weight(20, 1.0F);
    kernels().rms_norm(x.data(), weight.data(), 1e-5F, 20, x.data());
    for (const float value : x) ASSERT_TRUE(std::isnan(value));
  }
}

TEST_P(RowKernelsTest, AlignmentDoesNotShow) {
  const std::vector<float> x = RandomFloats(301, 10);
  const std::vector<float> weight(301, 1.0F);
  std::vector<float> norm_want(301);
  float max_want = 0;
  float sum_want = 0;
  kernels().rms_norm(x.data(), weight.data(), 1e-5F, 301, norm_want.data());
  kernels().max_and_sum_exp(x.data(), 301, &max_want, &sum_want);
  for (int64_t offset = 1; offset < 16; ++offset) {
    std::vector<float> room(offset + 301);
    std::copy(x.begin(), x.end(), room.begin() + offset);
    std::vector<float> norm(301);
    float max = 0;
    float sum = 0;
    kernels().rms_norm(room.data() + offset, weight.data(), 1e-5F, 301, norm.data());
    kernels().max_and_sum_exp(room.data() + offset, 301, &max, &sum);
    ASSERT_EQ(norm, norm_want);
    ASSERT_EQ(max, max_want);
    ASSERT_EQ(Bits(sum), Bits(sum_want));
  }
}

INSTANTIATE_TEST_SUITE_P(AllLevels, RowKernelsTest,
                         ::testing::ValuesIn(SupportedIsaLevels().begin(),
                                             SupportedIsaLevels().end()),
                         [](const auto& info) { return std::string(IsaName(info.param)); });

}  // namespace
}  // namespace ng
