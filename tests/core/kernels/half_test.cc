#include "ng/half.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ng/isa.h"
#include "ng/vec16.h"
#include "tests/support/floats.h"

namespace ng {
namespace {

bool HasF16c() { return SupportedIsaLevels().size() > 1; }

NG_BEGIN_TARGET_AVX2
float HardwareF16ToF32(uint16_t half) { return _cvtsh_ss(half); }
uint16_t HardwareF32ToF16(float value) {
  return static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
NG_END_TARGET

// The nearer of the two neighbours that the upper 16 bits have, the even one of a tie.
uint16_t NearestBf16(float value) {
  const auto below = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  const auto above =
      static_cast<uint16_t>(below + 1);  // away from zero; infinity after the largest
  const auto exact = [](uint16_t bits) {
    if ((bits & 0x7FFFU) == 0x7F80U) return std::copysign(0x1p128, Bf16ToF32(bits));
    return static_cast<double>(Bf16ToF32(bits));
  };
  const double to_below = std::abs(value - exact(below));
  const double to_above = std::abs(exact(above) - value);
  if (to_below == to_above) return below % 2 == 0 ? below : above;
  return to_below < to_above ? below : above;
}

TEST(F16, EveryPatternSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits <= 0xFFFFU; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const bool nan = (bits & 0x7C00U) == 0x7C00U && (bits & 0x3FFU) != 0;
    ASSERT_EQ(std::isnan(F16ToF32(half)), nan) << std::hex << bits;
    ASSERT_EQ(F32ToF16(F16ToF32(half)), nan ? half | 0x200U : half) << std::hex << bits;
  }
}

TEST(F16, EveryPatternWidensAsTheHardwareDoes) {
  if (!HasF16c()) GTEST_SKIP() << "no F16C";
  for (uint32_t bits = 0; bits <= 0xFFFFU; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    ASSERT_EQ(std::bit_cast<uint32_t>(F16ToF32(half)),
              std::bit_cast<uint32_t>(HardwareF16ToF32(half)))
        << std::hex << bits;
  }
}

TEST(F16, RoundsAsTheHardwareDoes) {
  if (!HasF16c()) GTEST_SKIP() << "no F16C";
  const auto check = [](uint32_t bits) {
    const auto value = std::bit_cast<float>(bits);
    ASSERT_EQ(F32ToF16(value), HardwareF32ToF16(value)) << std::hex << bits;
  };
  for (uint64_t bits = 0; bits <= 0xFFFFFFFFU; bits += 1021) check(static_cast<uint32_t>(bits));
  // Both sides of every midpoint between neighbouring halves.
  for (uint32_t half = 0; half < 0x7C00U; ++half) {
    const float low = F16ToF32(static_cast<uint16_t>(half));
    const float high = half == 0x7BFFU ? 65536.0F : F16ToF32(static_cast<uint16_t>(half + 1));
    const auto middle = std::bit_cast<uint32_t>(low + (high - low) / 2);
    for (const uint32_t sign : {0U, 0x80000000U}) {
      check(sign | (middle - 1));
      check(sign | middle);
      check(sign | (middle + 1));
    }
  }
}

TEST(F16, RoundsTiesToEvenAndOverflowsToInfinity) {
  EXPECT_EQ(F32ToF16(1.0F), 0x3C00);
  EXPECT_EQ(F32ToF16(1.0F + 0x1p-11F), 0x3C00);  // a tie, down to even
  EXPECT_EQ(F32ToF16(1.0F + 0x3p-11F), 0x3C02);  // a tie, up to even
  EXPECT_EQ(F32ToF16(65504.0F), 0x7BFF);         // the largest
  EXPECT_EQ(F32ToF16(65519.996F), 0x7BFF);       // just below the tie
  EXPECT_EQ(F32ToF16(65520.0F), 0x7C00);         // the tie rounds up
  EXPECT_EQ(F32ToF16(-kInf), 0xFC00);
  EXPECT_EQ(F32ToF16(0x1p-24F), 0x0001);  // the smallest subnormal
  EXPECT_EQ(F32ToF16(0x1p-25F), 0x0000);  // a tie with zero
  EXPECT_EQ(F32ToF16(0x1.000002p-25F), 0x0001);
  EXPECT_EQ(F32ToF16(0x1.ffcp-15F), 0x0400);  // up into the normal range
  EXPECT_EQ(F32ToF16(-0.0F), 0x8000);
}

TEST(Bf16, EveryPatternSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits <= 0xFFFFU; ++bits) {
    const bool nan = (bits & 0x7F80U) == 0x7F80U && (bits & 0x7FU) != 0;
    const float value = Bf16ToF32(static_cast<uint16_t>(bits));
    ASSERT_EQ(std::isnan(value), nan) << std::hex << bits;
    ASSERT_EQ(F32ToBf16(value), nan ? bits | 0x40U : bits) << std::hex << bits;
  }
}

TEST(Bf16, RoundsToTheNearestNeighbourWithTiesToEven) {
  for (uint64_t wide = 0; wide <= 0xFFFFFFFFU; wide += 509) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(wide));
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(F32ToBf16(value), NearestBf16(value)) << std::hex << wide;
  }
  for (uint32_t upper = 0; upper < 0x7F80U; ++upper) {
    for (const uint32_t lower : {0x7FFFU, 0x8000U, 0x8001U}) {
      const auto value = std::bit_cast<float>(upper << 16 | lower);
      ASSERT_EQ(F32ToBf16(value), NearestBf16(value)) << std::hex << upper << ' ' << lower;
      ASSERT_EQ(F32ToBf16(-value), NearestBf16(-value)) << std::hex << upper << ' ' << lower;
    }
  }
}

TEST(Bf16, KeepsInfinityAndNaN) {
  EXPECT_EQ(F32ToBf16(kInf), 0x7F80);
  EXPECT_EQ(F32ToBf16(-kInf), 0xFF80);
  EXPECT_EQ(F32ToBf16(std::numeric_limits<float>::max()), 0x7F80);
  // A NaN whose payload lies in the lost bits alone must not become infinity.
  EXPECT_TRUE(std::isnan(Bf16ToF32(F32ToBf16(std::bit_cast<float>(0x7F800001U)))));
}

}  // namespace
}  // namespace ng
