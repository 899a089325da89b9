// How the weights of a matrix are held in memory.
#ifndef NG_CORE_KERNELS_WEIGHT_TYPE_H_
#define NG_CORE_KERNELS_WEIGHT_TYPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ng {

// kInt8 and kInt4 have the value grids of GGUF's Q8_0 and Q4_0. The types after them are types of
// GGUF; those from kW4 on are of other quantised checkpoints, whose factors f32 holds and f16 does
// not. From kE4m3 on codes stand for floats that are no integers.
enum class WeightType : int32_t {
  kF32,
  kBf16,
  kF16,
  kInt8,
  kInt4,
  kQ41,
  kQ50,
  kQ51,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIq4Nl,
  kIq4Xs,
  kIq3Xxs,
  kIq3S,
  kIq2,      // IQ2_XXS, IQ2_XS, IQ2_S
  kIq1,      // IQ1_S, IQ1_M
  kTernary,  // TQ1_0, TQ2_0
  kMxfp4,
  kW4,  // integers of up to 4 bits, a factor for each 32
  kW4Minima,
  kW8,
  kW8Minima,
  kW4Span64,  // a factor for each 64
  kW4Minima64,
  kW8Span64,
  kW8Minima64,
  kE4m3,  // floats of 8 bits, a factor for each 32
  kE4m3Span128,
  kNf4,  // bitsandbytes' two types of 4 bits, a factor for each 64
  kFp4,
  kNvfp4  // E2M1, a scale in E4M3 for each 16
};
inline constexpr int kWeightTypes = 34;

// "f32", "int8", "q4_k".
std::string_view WeightTypeName(WeightType type);

inline constexpr int64_t kBlockColumns = 16;  // output columns packed side by side
inline constexpr int64_t kQuantBlock = 32;    // inputs that a kernel takes at a time

// A value grid. The inputs of one output are cut into spans; a span shares the factors d and dmin.
// Where a span has several groups of inputs, each group has a small integer scale and minimum. The
// weight of an input with the integer q is
//   weight = unit * d * scale[group] * (value(q) - zero) - dmin * minimum[group]
// where unit * d * scale and dmin * minimum fit f32 exactly.
//
// Where codes stand for floats, a weight is unit * d * (scale[group] * floats[q]), and what is in
// brackets fits f32 exactly.
struct QuantGrid {
  int64_t span = 0;   // inputs that share d and dmin: 32, 64, or 256 with several groups
  int64_t group = 0;  // inputs that share a scale, and whose products are summed: 16 or 32
  int low_bits = 0;   // the lower bits of q; they are stored apart from
  int high_bits = 0;  // the upper bits of q
  int zero = 0;
  bool has_minimum = false;
  std::span<const uint8_t> values = {};  // [16] what each q of up to 4 bits stands for; or empty
  float unit = 1.0F;                     // a power of two
  bool power_of_two = false;             // d is 2^(its bits - 127), in one byte, and not an f16
  bool f32_factors = false;              // d and dmin are f32, and all groups' scales are 1, but
  bool float_scales = false;             // scales are codes of kE4m3Values
  std::span<const float> floats = {};    // [2^bits] what each q stands for; or empty

  // false: scale = minimum = 1
  constexpr bool grouped() const { return float_scales || (span > kQuantBlock && !f32_factors); }
  constexpr bool has_floats() const { return !floats.empty(); }
  constexpr int64_t bits() const { return low_bits + high_bits; }
  // Of floats: the inputs whose products are summed before they are scaled. Few, so that a core
  // works on several such sums at a time.
  constexpr int64_t summed() const { return span == 128 ? 64 : 32; }
  // Floats of 8 bits lie by pairs of inputs, not by fours (packed_matrix.h).
  constexpr bool by_pairs() const { return has_floats() && low_bits == 8; }
  constexpr int64_t groups() const { return span / group; }
  constexpr int ValueOf(uint8_t q) const { return (values.empty() ? q : values[q]) - zero; }
  // The bytes of 16 packed columns of a span; packed_matrix.h shows their layout.
  constexpr int64_t PlaneBytes() const { return kBlockColumns * span / 8 * bits(); }
  constexpr int64_t ScaleBytes() const { return grouped() ? kBlockColumns * groups() : 0; }
  constexpr int64_t FactorBytes() const {
    return kBlockColumns * (power_of_two ? 1 : f32_factors ? 4 : 2);
  }
  constexpr int64_t SpanBytes() const {
    const int64_t scales = ScaleBytes() + FactorBytes();
    return PlaneBytes() + (has_minimum ? 2 * scales : scales);
  }
};

// Whether a type is a value grid; all others are floats.
constexpr bool IsGrid(WeightType type) { return type >= WeightType::kInt8; }
// Whether its codes stand for integers, which are multiplied with integers; or for floats.
constexpr bool IsIntegers(WeightType type) { return IsGrid(type) && type < WeightType::kE4m3; }

// The values of the grids that have a table, each with its grid's zero added.
// IQ4: -127, -104, -83, ... 113.
alignas(16) inline constexpr uint8_t kIq4Values[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                       129, 141, 153, 166, 181, 197, 217, 241};
// IQ3_XXS: 2, 6, 10, 14, 18, 22, 26 and 31, then the same below 0.
alignas(16) inline constexpr uint8_t kIq3XxsValues[16] = {33, 37, 41, 45, 49, 53, 57, 62,
                                                          29, 25, 21, 17, 13, 9,  5,  0};
// IQ3_S: 1, 3, ... 15, then the same below 0.
alignas(16) inline constexpr uint8_t kIq3SValues[16] = {16, 18, 20, 22, 24, 26, 28, 30,
                                                        14, 12, 10, 8,  6,  4,  2,  0};
// IQ2: 8, 25 and 43, and the same below 0; no file holds a q of 3 or 7.
alignas(16) inline constexpr uint8_t kIq2Values[16] = {51, 68, 86, 43, 35, 18, 0, 43};
// IQ1: 8 times -1, 0 and 1, each 1 more, and each 1 less; no file holds a q of 3 or 7.
alignas(16) inline constexpr uint8_t kIq1Values[16] = {2, 10, 18, 9, 0, 8, 16, 9};
// MXFP4: twice 0, 0.5, 1, 1.5, 2, 3, 4 and 6, then the same below 0.
alignas(16) inline constexpr uint8_t kMxfp4Values[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                         12, 11, 10, 9,  8,  6,  4,  0};

// E4M3, each divided by 256: as an f16 its bits are those of the code, moved. What is no number in
// E4M3 (a code of 127 or 255) no file is loaded with; here it is what the bits say.
inline constexpr std::array<float, 256> kE4m3Values = [] {
  std::array<float, 256> values = {};
  for (size_t code = 0; code < 128; ++code) {
    const size_t exponent = code / 8;
    float value = static_cast<float>(exponent == 0 ? code : 8 + code % 8) * 0x1p-17F;
    for (size_t i = 1; i < exponent; ++i) value *= 2.0F;
    values[code] = value;
    values[code + 128] = -value;
  }
  return values;
}();
// E2M1.
alignas(64) inline constexpr float kE2m1Values[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,
                                                      4.0F,  6.0F,  -0.0F, -0.5F, -1.0F, -1.5F,
                                                      -2.0F, -3.0F, -4.0F, -6.0F};
// bitsandbytes' NF4: quantiles of the normal distribution.
alignas(64) inline constexpr float kNf4Values[16] = {-1.0F,
                                                     -0.6961928009986877F,
                                                     -0.5250730514526367F,
                                                     -0.39491748809814453F,
                                                     -0.28444138169288635F,
                                                     -0.18477343022823334F,
                                                     -0.09105004370212555F,
                                                     0.0F,
                                                     0.07958029955625534F,
                                                     0.16093020141124725F,
                                                     0.24611230194568634F,
                                                     0.33791524171829224F,
                                                     0.44070982933044434F,
                                                     0.5626170039176941F,
                                                     0.7229568362236023F,
                                                     1.0F};
// bitsandbytes' FP4.
alignas(64) inline constexpr float kFp4Values[16] = {
    0.0F,  0.0625F / 12,  8.0F / 12,  1.0F,  4.0F / 12,  0.5F,  2.0F / 12,  0.25F,
    -0.0F, -0.0625F / 12, -8.0F / 12, -1.0F, -4.0F / 12, -0.5F, -2.0F / 12, -0.25F};

// In the order of the enum, from kInt8 on.
inline constexpr QuantGrid kGrids[] = {
    {.span = 32, .group = 32, .low_bits = 8, .zero = 128},
    {.span = 32, .group = 32, .low_bits = 4, .zero = 8},
    {.span = 32, .group = 32, .low_bits = 4, .has_minimum = true},
    {.span = 32, .group = 32, .low_bits = 4, .high_bits = 1, .zero = 16},
    {.span = 32, .group = 32, .low_bits = 4, .high_bits = 1, .has_minimum = true},
    {.span = 256, .group = 16, .low_bits = 2, .has_minimum = true},
    {.span = 256, .group = 16, .low_bits = 2, .high_bits = 1, .zero = 4},
    {.span = 256, .group = 32, .low_bits = 4, .has_minimum = true},
    {.span = 256, .group = 32, .low_bits = 4, .high_bits = 1, .has_minimum = true},
    {.span = 256, .group = 16, .low_bits = 4, .high_bits = 2, .zero = 32},
    {.span = 32, .group = 32, .low_bits = 4, .zero = 128, .values = kIq4Values},
    {.span = 256, .group = 32, .low_bits = 4, .zero = 128, .values = kIq4Values},
    {.span = 256, .group = 32, .low_bits = 4, .zero = 31, .values = kIq3XxsValues, .unit = 0.5F},
    {.span = 256, .group = 32, .low_bits = 4, .zero = 15, .values = kIq3SValues},
    {.span = 256,
     .group = 16,
     .low_bits = 2,
     .high_bits = 1,
     .zero = 43,
     .values = kIq2Values,
     .unit = 0.125F},
    {.span = 256,
     .group = 16,
     .low_bits = 2,
     .high_bits = 1,
     .zero = 9,
     .values = kIq1Values,
     .unit = 0.125F},
    {.span = 256, .group = 32, .low_bits = 2, .zero = 1},
    {.span = 32,
     .group = 32,
     .low_bits = 4,
     .zero = 12,
     .values = kMxfp4Values,
     .unit = 0.5F,
     .power_of_two = true},
    {.span = 32, .group = 32, .low_bits = 4, .zero = 8, .f32_factors = true},
    {.span = 32, .group = 32, .low_bits = 4, .has_minimum = true, .f32_factors = true},
    {.span = 32, .group = 32, .low_bits = 8, .zero = 128, .f32_factors = true},
    {.span = 32, .group = 32, .low_bits = 8, .has_minimum = true, .f32_factors = true},
    {.span = 64, .group = 32, .low_bits = 4, .zero = 8, .f32_factors = true},
    {.span = 64, .group = 32, .low_bits = 4, .has_minimum = true, .f32_factors = true},
    {.span = 64, .group = 32, .low_bits = 8, .zero = 128, .f32_factors = true},
    {.span = 64, .group = 32, .low_bits = 8, .has_minimum = true, .f32_factors = true},
    {.span = 32,
     .group = 32,
     .low_bits = 8,
     .unit = 256.0F,
     .f32_factors = true,
     .floats = kE4m3Values},
    {.span = 128,
     .group = 128,
     .low_bits = 8,
     .unit = 256.0F,
     .f32_factors = true,
     .floats = kE4m3Values},
    {.span = 64, .group = 64, .low_bits = 4, .f32_factors = true, .floats = kNf4Values},
    {.span = 64, .group = 64, .low_bits = 4, .f32_factors = true, .floats = kFp4Values},
    {.span = 64,
     .group = 16,
     .low_bits = 4,
     .unit = 256.0F,
     .f32_factors = true,
     .float_scales = true,
     .floats = kE2m1Values},
};

// REQUIRES: IsGrid(type).
constexpr const QuantGrid& GridOf(WeightType type) {
  return kGrids[static_cast<int>(type) - static_cast<int>(WeightType::kInt8)];
}

// One span of one output. Parts that its grid does not have are undefined.
struct QuantSpan {
  uint32_t d;         // bits of an f16 or an f32, or a power of two
  uint32_t dmin;      // bits of an f16 or an f32
  uint8_t q[256];     // [span]
  int8_t scales[16];  // [groups]
  int8_t minima[16];  // [groups]
};

// unit * d of a span, exactly. Infinite for a power of two of 255.
float FactorOf(const QuantGrid& grid, uint32_t d);
// dmin of a span.
float MinimumOf(const QuantGrid& grid, uint32_t dmin);

// The values of a span. out: [span]
void SpanValues(const QuantGrid& grid, const QuantSpan& span, float* out);

// Bytes of 16 packed columns of k inputs. REQUIRES: k <= 2^56.
constexpr int64_t PackedBlockBytes(WeightType type, int64_t k) {
  switch (type) {
    case WeightType::kF32:
      return k * kBlockColumns * 4;
    case WeightType::kF16:
      return k * kBlockColumns * 2;
    case WeightType::kBf16:
      return (k + k % 2) * kBlockColumns * 2;
    default:
      return (k + GridOf(type).span - 1) / GridOf(type).span * GridOf(type).SpanBytes();
  }
}

}  // namespace ng

#endif  // NG_CORE_KERNELS_WEIGHT_TYPE_H_
