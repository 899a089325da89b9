// Every level's Vec16 against the scalar twin, lane by lane and bit by bit.
#include "ng/vec16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <string>

#include "tests/core/kernels/test_support.h"
#include "tests/core/kernels/vec16_ops.h"
#include "tests/support/floats.h"

namespace ng {

void EvaluateVec16(IsaLevel level, const Vec16Inputs& in, Vec16Results* out) {
  switch (level) {
    case IsaLevel::kScalar:
      return EvaluateScalarVec16(in, out);
    case IsaLevel::kAvx2:
    case IsaLevel::kAvxVnni:
      return EvaluateAvx2Vec16(in, out);
    case IsaLevel::kAvx512:
    case IsaLevel::kAvx512Vnni:
    case IsaLevel::kAvx512Bf16:
      return EvaluateAvx512Vec16(in, out);
  }
}

namespace {

class Vec16Test : public ::testing::TestWithParam<IsaLevel> {};

// Ordinary values with some of the awkward ones strewn in.
void FillAwkward(std::mt19937* random, float (&lanes)[16]) {
  constexpr float kAwkward[] = {0.0F,   -0.0F, kInf, -kInf, kNan,  1e-40F, -1e-40F, 3e38F,
                                -3e38F, 0.5F,  1.5F, 2.5F,  -2.5F, 1e-30F, 88.72F,  -86.9F};
  for (float& lane : lanes) {
    lane = (*random)() % 4 == 0 ? kAwkward[(*random)() % std::size(kAwkward)]
                                : static_cast<float>((*random)() % 20001) * 1e-3F - 10.0F;
  }
}

Vec16Inputs AwkwardInputs(uint32_t seed, GuardedArray<float>* partial) {
  std::mt19937 random(seed);
  Vec16Inputs in;
  FillAwkward(&random, in.a);
  FillAwkward(&random, in.b);
  FillAwkward(&random, in.c);
  for (float& n : in.whole) n = static_cast<float>(static_cast<int>(random() % 254) - 126);
  in.whole[seed % 16] = in.b[seed % 16] = kNan;  // as Exp has it
  for (uint16_t& half : in.halves) half = static_cast<uint16_t>(random());
  for (uint8_t& byte : in.bytes) byte = static_cast<uint8_t>(random());
  for (float& entry : in.table) entry = in.a[random() % 16];
  in.n = static_cast<int>(partial->size());
  for (int i = 0; i < in.n; ++i) (*partial)[i] = in.c[i];
  in.partial = partial->data();
  return in;
}

// Equal bits, or NaN both: which NaN an operation makes is not promised.
::testing::AssertionResult Same(const float (&got)[16], const float (&want)[16]) {
  for (int i = 0; i < 16; ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    if (Bits(got[i]) != Bits(want[i])) {
      return ::testing::AssertionFailure() << "lane " << i << ": " << got[i] << ", not " << want[i];
    }
  }
  return ::testing::AssertionSuccess();
}

TEST_P(Vec16Test, EveryOperationEqualsTheScalarTwin) {
  for (uint32_t seed = 0; seed < 17 * 60; ++seed) {
    GuardedArray<float> partial(seed % 17);
    const Vec16Inputs in = AwkwardInputs(seed, &partial);
    Vec16Results got, want;
    EvaluateVec16(GetParam(), in, &got);
    EvaluateScalarVec16(in, &want);
    SCOPED_TRACE("seed " + std::to_string(seed));
    ASSERT_TRUE(Same(got.set, want.set));
    ASSERT_TRUE(Same(got.load, want.load));
    ASSERT_TRUE(Same(got.load_first, want.load_first));
    ASSERT_TRUE(Same(got.store_first, want.store_first));
    ASSERT_TRUE(Same(got.keep_first, want.keep_first));
    ASSERT_TRUE(Same(got.i8, want.i8));
    ASSERT_TRUE(Same(got.u8, want.u8));
    ASSERT_TRUE(Same(got.lookup, want.lookup));
    ASSERT_TRUE(Same(got.bf16, want.bf16));
    ASSERT_TRUE(Same(got.f16, want.f16));
    ASSERT_TRUE(Same(got.bf16_even, want.bf16_even));
    ASSERT_TRUE(Same(got.bf16_odd, want.bf16_odd));
    ASSERT_TRUE(Same(got.f16_even, want.f16_even));
    ASSERT_TRUE(Same(got.f16_odd, want.f16_odd));
    ASSERT_TRUE(Same(got.add, want.add));
    ASSERT_TRUE(Same(got.sub, want.sub));
    ASSERT_TRUE(Same(got.mul, want.mul));
    ASSERT_TRUE(Same(got.div, want.div));
    ASSERT_TRUE(Same(got.max, want.max));
    ASSERT_TRUE(Same(got.min, want.min));
    ASSERT_TRUE(Same(got.mul_add, want.mul_add));
    ASSERT_TRUE(Same(got.max_magnitude, want.max_magnitude));
    ASSERT_TRUE(Bits(got.max_magnitude_lane) == Bits(want.max_magnitude_lane));
    ASSERT_TRUE(Same(got.exp_of_several, got.exp_of_non_positive));
    ASSERT_TRUE(Same(got.exp, want.exp));
    ASSERT_TRUE(Same(got.tanh, want.tanh));
    ASSERT_TRUE(Same(got.round, want.round));
    ASSERT_TRUE(Same(got.scale2, want.scale2));
    ASSERT_TRUE(Same(got.select_less, want.select_less));
    ASSERT_EQ(got.less_bits, want.less_bits);
    ASSERT_TRUE(Same(got.select_bits, want.select_bits));
    ASSERT_TRUE(Same(got.set_pair, want.set_pair));
    ASSERT_TRUE(Same(got.keep_even, want.keep_even));
    ASSERT_TRUE(Same(got.keep_odd, want.keep_odd));
    ASSERT_TRUE(Same(got.add_pairs, want.add_pairs));
    ASSERT_TRUE(Bits(got.sum) == Bits(want.sum) || (std::isnan(got.sum) && std::isnan(want.sum)));
    ASSERT_TRUE(Bits(got.max_lane) == Bits(want.max_lane) ||
                (std::isnan(got.max_lane) && std::isnan(want.max_lane)));
  }
}

TEST_P(Vec16Test, WidensEveryByte) {
  for (int first = 0; first < 256; first += 16) {
    Vec16Inputs in{};
    for (int i = 0; i < 16; ++i) in.bytes[i] = static_cast<uint8_t>(first + i);
    for (int i = 0; i < 256; ++i) in.table[i] = static_cast<float>(1000 - i);
    Vec16Results got;
    EvaluateVec16(GetParam(), in, &got);
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(got.u8[i], static_cast<float>(first + i));
      EXPECT_EQ(got.i8[i], static_cast<float>(static_cast<int8_t>(first + i)));
      EXPECT_EQ(got.lookup[i], static_cast<float>(1000 - first - i));
    }
  }
}

TEST_P(Vec16Test, MulAddRoundsOnce) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    GuardedArray<float> partial(0);
    const Vec16Inputs in = AwkwardInputs(seed, &partial);
    Vec16Results got;
    EvaluateVec16(GetParam(), in, &got);
    float want[16];
    for (int i = 0; i < 16; ++i) want[i] = std::fma(in.a[i], in.b[i], in.c[i]);
    ASSERT_TRUE(Same(got.mul_add, want));
  }
}

// Sums that cancel, lie halfway between two floats but for a far bit, or end below the smallest
// normal: there a second rounding shows.
TEST_P(Vec16Test, MulAddRoundsOnceWhereItIsHard) {
  std::mt19937 random(1);
  // The bits of the mask, and an exponent in [from, from + n).
  const auto bits = [&](uint32_t mask, uint32_t from, uint32_t n) {
    const auto any = static_cast<uint32_t>(random());
    return std::bit_cast<float>((any & mask) | (from + static_cast<uint32_t>(random()) % n) << 23);
  };
  for (int round = 0; round < 20000; ++round) {
    Vec16Inputs in{};
    float want[16];
    for (int i = 0; i < 16; ++i) {
      const int kind = i % 4;
      in.a[i] = bits(kind == 3 ? 0x807FFF00U : 0x807FFFFFU, kind == 2 ? 60 : 120, 16);
      in.b[i] = bits(kind == 3 ? 0x807FF000U : 0x807FFFFFU, kind == 2 ? 30 : 120, 16);
      in.c[i] = bits(kind == 0 ? 0x80000000U : 0x807FFFFFU, 90, 60);
      if (kind == 1) in.c[i] = -in.a[i] * in.b[i];
      if (kind == 2) in.c[i] = bits(0x807FFFFFU, 0, 2);
      want[i] = std::fma(in.a[i], in.b[i], in.c[i]);
    }
    float partial = 0.0F;
    in.partial = &partial;
    Vec16Results got;
    EvaluateVec16(GetParam(), in, &got);
    ASSERT_TRUE(Same(got.mul_add, want)) << "round " << round;
  }
}

TEST_P(Vec16Test, ExpOfNonPositiveHasTheBitsOfExp) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    GuardedArray<float> partial(0);
    Vec16Inputs in = AwkwardInputs(seed, &partial);
    for (float& x : in.a) {
      x = seed % 2 == 0 ? -std::fabs(x) : -std::fabs(x) * 10.0F;
      if (x > -88.0F && x < -86.0F) x = -86.0F;  // below, Exp rounds a subnormal on its way
    }
    Vec16Results got, want;
    EvaluateVec16(GetParam(), in, &got);
    ASSERT_TRUE(Same(got.exp_of_non_positive, got.exp)) << "seed " << seed;
    EvaluateScalarVec16(in, &want);
    ASSERT_TRUE(Same(got.exp_of_non_positive, want.exp_of_non_positive)) << "seed " << seed;
  }
}

TEST_P(Vec16Test, MaxMagnitudeLosesNoNanAndNoInfinity) {
  for (int at = 0; at < 16; ++at) {
    for (const float worst : {-4.0F, kInf, -kInf, kNan, -kNan}) {
      for (const bool in_a : {false, true}) {
        Vec16Inputs in{};
        for (int i = 0; i < 16; ++i) in.a[i] = in.b[i] = i % 2 == 0 ? -3.0F : 2.0F;
        (in_a ? in.a : in.b)[at] = worst;
        Vec16Results got;
        EvaluateVec16(GetParam(), in, &got);
        for (int i = 0; i < 16; ++i) {
          const float want = i == at ? worst : in.a[i];
          EXPECT_EQ(Bits(got.max_magnitude[i]), Bits(std::fabs(want)));
        }
        EXPECT_EQ(Bits(got.max_magnitude_lane), Bits(std::fabs(worst)));
      }
    }
  }
}

TEST_P(Vec16Test, MasksNeitherReadNorWriteBeyondTheirCount) {
  for (int n = 0; n <= 16; ++n) {
    GuardedArray<float> partial(n);
    const Vec16Inputs in = AwkwardInputs(static_cast<uint32_t>(n), &partial);
    Vec16Results got;
    EvaluateVec16(GetParam(), in, &got);
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(Bits(got.load_first[i]), Bits(i < n ? in.c[i] : 0.0F));
      EXPECT_EQ(Bits(got.store_first[i]), Bits(i < n ? in.a[i] : 77.0F));
      EXPECT_EQ(Bits(got.keep_first[i]), Bits(i < n ? in.a[i] : in.b[0]));
    }
  }
}

// e^x of 16 values.
void EvaluateExp(IsaLevel level, const float (&x)[16], float (&y)[16]) {
  Vec16Inputs in{};
  std::copy(std::begin(x), std::end(x), in.a);
  Vec16Results out;
  EvaluateVec16(level, in, &out);
  std::copy(std::begin(out.exp), std::end(out.exp), y);
}

TEST_P(Vec16Test, TanhIsWithinTwoUlp) {
  constexpr double kTwoUlp = 0x1p-22;  // of a number in [1, 2), relative to it
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (int step = -20000; step < 20000; step += 16) {
    Vec16Inputs in{};
    Vec16Results out;
    for (int i = 0; i < 16; ++i) {
      const auto x = static_cast<float>(step + i) / 1000.0F;
      in.a[i] = step % 32 == 0 ? x : x * x * x * 1e-6F;
    }
    in.a[0] = step % 96 == 0 ? nan : step < 0 ? -infinity : infinity;
    EvaluateVec16(GetParam(), in, &out);
    for (int i = 0; i < 16; ++i) {
      const double exact = std::tanh(static_cast<double>(in.a[i]));
      if (std::isnan(exact)) {
        EXPECT_TRUE(std::isnan(out.tanh[i]));
      } else {
        EXPECT_NEAR(out.tanh[i], exact, kTwoUlp * std::abs(exact)) << in.a[i];
      }
    }
  }
}

TEST_P(Vec16Test, ExpIsWithinTwoUlpOverItsRange) {
  double worst = 0;
  const auto sweep = [&](uint32_t begin, uint32_t end, uint32_t stride) {
    for (uint64_t bits = begin; bits < end; bits += uint64_t{16} * stride) {
      float x[16], y[16];
      for (uint32_t i = 0; i < 16; ++i) {
        x[i] = std::bit_cast<float>(std::min(end, static_cast<uint32_t>(bits) + i * stride));
      }
      EvaluateExp(GetParam(), x, y);
      for (int i = 0; i < 16; ++i) {
        const double exact = std::exp(static_cast<double>(x[i]));
        const double ulp = std::ldexp(1.0, std::ilogb(static_cast<float>(exact)) - 23);
        const double error = std::abs(y[i] - exact) / ulp;
        ASSERT_LE(error, 2.0) << "e^" << x[i] << " = " << y[i];
        worst = std::max(worst, error);
      }
    }
  };
  sweep(0, Bits(88.72283F), 499);          // 0 up to the largest
  sweep(Bits(-0.0F), Bits(-86.98F), 499);  // 0 down to the smallest
  sweep(Bits(88.0F), Bits(88.72283F), 1);  // 2^127 and beyond
  sweep(Bits(-86.6F), Bits(-86.98F), 1);
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST_P(Vec16Test, ExpAtItsEdges) {
  const float x[16] = {0.0F,   -0.0F,   kNan,      -kNan,     kInf,       -kInf,  -1000.0F, 1000.0F,
                       1e-40F, -1e-40F, 88.72283F, 88.72284F, -86.98001F, -87.5F, -3e38F,   3e38F};
  float y[16];
  EvaluateExp(GetParam(), x, y);
  EXPECT_EQ(y[0], 1.0F);
  EXPECT_EQ(y[1], 1.0F);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[4], kInf);
  EXPECT_EQ(y[5], 0.0F);
  EXPECT_EQ(y[6], 0.0F);
  EXPECT_EQ(y[7], kInf);
  EXPECT_EQ(y[8], 1.0F);
  EXPECT_EQ(y[9], 1.0F);
  EXPECT_TRUE(std::isfinite(y[10]));
  EXPECT_EQ(y[11], kInf);
  EXPECT_EQ(y[12], 0.0F);
  EXPECT_EQ(y[13], 0.0F);
  EXPECT_EQ(y[14], 0.0F);
  EXPECT_EQ(y[15], kInf);
}

INSTANTIATE_TEST_SUITE_P(AllLevels, Vec16Test,
                         ::testing::ValuesIn(SupportedIsaLevels().begin(),
                                             SupportedIsaLevels().end()),
                         [](const auto& info) { return std::string(IsaName(info.param)); });

}  // namespace
}  // namespace ng
