// How the weights of a matrix are held in memory.
#ifndef NG_CORE_KERNELS_WEIGHT_TYPE_H_
#define NG_CORE_KERNELS_WEIGHT_TYPE_H_

#include <cstdint>
#include <string_view>

namespace ng {

// kInt8 and kInt4 have the value grids of GGUF's Q8_0 and Q4_0. The types after them are types of
// GGUF.
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
  kIq4Xs
};
inline constexpr int kWeightTypes = 14;

// "f32", "int8", "q4_k".
std::string_view WeightTypeName(WeightType type);

inline constexpr int64_t kBlockColumns = 16;  // output columns packed side by side
inline constexpr int64_t kQuantBlock = 32;    // inputs that a kernel takes at a time

// A value grid. The inputs of one output are cut into spans; a span shares the factors d and dmin.
// Where a span has several groups of inputs, each group has a small integer scale and minimum. The
// weight of an input with the integer q is
//   weight = d * scale[group] * (q - zero) - dmin * minimum[group]
// where d * scale and dmin * minimum fit f32 exactly.
struct QuantGrid {
  int64_t span = 0;   // inputs that share d and dmin: 32, or 256 with several groups
  int64_t group = 0;  // inputs that share a scale: 16 or 32
  int low_bits = 0;   // the lower bits of q; they are stored apart from
  int high_bits = 0;  // the upper bits of q
  int zero = 0;
  bool has_minimum = false;

  constexpr bool grouped() const { return span > kQuantBlock; }  // false: scale = minimum = 1
  constexpr int64_t bits() const { return low_bits + high_bits; }
  constexpr int64_t groups() const { return span / group; }
  // The bytes of 16 packed columns of a span; packed_matrix.h shows their layout.
  constexpr int64_t PlaneBytes() const { return kBlockColumns * span / 8 * bits(); }
  constexpr int64_t ScaleBytes() const { return grouped() ? kBlockColumns * groups() : 0; }
  constexpr int64_t SpanBytes() const {
    const int64_t scales = ScaleBytes() + kBlockColumns * 2;
    return PlaneBytes() + (has_minimum ? 2 * scales : scales);
  }
};

// Whether a type is a value grid; all others are floats.
constexpr bool IsGrid(WeightType type) { return type >= WeightType::kInt8; }

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
    {.span = 256, .group = 32, .low_bits = 8, .zero = 128},
};

// REQUIRES: IsGrid(type).
constexpr const QuantGrid& GridOf(WeightType type) {
  return kGrids[static_cast<int>(type) - static_cast<int>(WeightType::kInt8)];
}

// One span of one output. Parts that its grid does not have are undefined.
struct QuantSpan {
  uint16_t d;         // f16
  uint16_t dmin;      // f16
  uint8_t q[256];     // [span]
  int8_t scales[16];  // [groups]
  int8_t minima[16];  // [groups]
};

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
