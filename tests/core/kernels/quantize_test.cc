#include "core/kernels/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ng/half.h"
#include "tests/core/kernels/test_support.h"

namespace ng {
namespace {

// One of four blocks; the others hold other values.
QuantSpan Int8Of(const float* x) {
  const std::vector<float> other = RandomFloats(kQuantBlock, 7);
  return QuantizeInt8({other.data(), x, other.data(), other.data()})[1];
}
QuantSpan Int4Of(const float* x) {
  const std::vector<float> other = RandomFloats(kQuantBlock, 7);
  return QuantizeInt4({other.data(), other.data(), other.data(), x})[3];
}

double SquaredError(const float* x, const QuantSpan& quants, int zero) {
  double error = 0;
  for (int64_t i = 0; i < kQuantBlock; ++i) {
    const double value = static_cast<double>(F16ToF32(quants.d)) * (quants.q[i] - zero);
    error += (x[i] - value) * (x[i] - value);
  }
  return error;
}

TEST(QuantizeInt8, TakesTheNearestStepOfTheLargestMagnitudeOver127) {
  const std::vector<float> x = RandomFloats(kQuantBlock * 50, 1);
  for (int64_t at = 0; at < 50 * kQuantBlock; at += kQuantBlock) {
    const QuantSpan quants = Int8Of(x.data() + at);
    float max = 0.0F;
    for (int64_t i = 0; i < kQuantBlock; ++i) max = std::max(max, std::abs(x[at + i]));
    const float scale = F16ToF32(quants.d);
    EXPECT_EQ(quants.d, F32ToF16(max / 127.0F));
    for (int64_t i = 0; i < kQuantBlock; ++i) {
      EXPECT_EQ(quants.q[i] - 128, std::lround(x[at + i] / scale));
    }
  }
}

TEST(QuantizeInt4, PutsTheLargestMagnitudeAtMinusEightWhenThatIsExact) {
  float x[kQuantBlock] = {};
  for (int i = 0; i < 16; ++i) x[i] = 0.25F * static_cast<float>(7 - i);  // 7 ... -8 quarters
  const QuantSpan quants = Int4Of(x);
  EXPECT_EQ(F16ToF32(quants.d), 0.25F);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(quants.q[i], 15 - i);
  for (int64_t i = 16; i < kQuantBlock; ++i) EXPECT_EQ(quants.q[i], 8);
}

TEST(QuantizeInt4, IsNearerThanTheScaleOfTheLargestMagnitudeAlone) {
  const std::vector<float> x = RandomFloats(kQuantBlock * 200, 2);
  double found = 0;
  double plain = 0;
  for (int64_t at = 0; at < 200 * kQuantBlock; at += kQuantBlock) {
    const float* block = x.data() + at;
    const QuantSpan quants = Int4Of(block);
    found += SquaredError(block, quants, 8);
    const float most = *std::max_element(
        block, block + kQuantBlock, [](float a, float b) { return std::abs(a) < std::abs(b); });
    QuantSpan by_most;
    by_most.d = F32ToF16(most / -8.0F);
    for (int64_t i = 0; i < kQuantBlock; ++i) {
      by_most.q[i] = static_cast<uint8_t>(
          std::clamp(std::lround(block[i] / F16ToF32(by_most.d)) + 8L, 0L, 15L));
    }
    EXPECT_LE(SquaredError(block, quants, 8), SquaredError(block, by_most, 8) * 1.0001);
    plain += SquaredError(block, by_most, 8);
  }
  EXPECT_LT(found, 0.95 * plain);
}

TEST(Quantize, ZerosAndWhatIsTooSmallForTheScaleAreZero) {
  for (const float value : {0.0F, 1e-30F, -1e-30F}) {
    const std::vector<float> x(kQuantBlock, value);
    const QuantSpan int8 = Int8Of(x.data());
    const QuantSpan int4 = Int4Of(x.data());
    for (int64_t i = 0; i < kQuantBlock; ++i) {
      EXPECT_EQ(int8.q[i], 128);
      EXPECT_EQ(int4.q[i], 8);
    }
  }
}

}  // namespace
}  // namespace ng
